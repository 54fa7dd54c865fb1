"""`judge`: run a model in ort-lite, ask the oracles, and explain what differs.

Three comparisons. The session with all transforms must give what a session without optimizations gives that returns every
value of the model, whose functions are inlined. Every node of that must be as onnxruntime and onnx.reference compute it
from the same values (`nodes`). And the whole model must be as onnxruntime computes it, where it takes it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx

import ort_lite
from ort_lite import GraphOptimizationLevel, InferenceSession
from ort_lite.dtypes import from_numpy, ort_name
from ort_lite.graph.inline import inline_functions
from ort_lite.load.load import load
from ort_lite.load.save import to_proto
from ort_lite.options.config_keys import ROUNDING
from tests.generated.comparison import Mismatch, identical, mismatches
from tests.generated.conditioning import Conditioning
from tests.generated.configurations import configurations
from tests.generated.defects import crash, crash_at_load
from tests.generated.known import ONNXRUNTIME, defect_of
from tests.generated.nodes import CONDITIONING, ORACLES, NodeJudge, random_outputs
from tests.generated.oracles import Answer, of_onnxruntime, session
from tests.generated.verdict import Difference, Verdict
from tests.generated.walk import Site, all_outputs, constants, upstream

SUBJECT = "ort-lite"
UNOPTIMIZED = "unoptimized"


def judge(model: onnx.ModelProto, feeds: Mapping[str, Any], thorough: bool = False) -> Verdict:
    """Compare ort-lite with the oracles. `thorough` asks for more configurations of ort-lite itself."""
    ort_lite.set_seed(1)  # sessions of one model draw the same numbers
    return _Trial(model, feeds).verdict(thorough)


class _Trial:
    """One model with its feeds, and what was found about it so far."""

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
        self.model, self.feeds = model, feeds
        self.contents = model.SerializeToString()
        self.differences: list[Difference] = []
        self.oracles: set[str] = set()
        self.refusals: dict[str, str] = {}
        self.conditioning = Conditioning(model, feeds)

    @cached_property
    def inlined(self) -> onnx.ModelProto:
        """The model whose nodes are judged: of a function's nodes, too, it is known what they read."""
        if not self.model.functions:
            return self.model
        changed = load(self.contents)
        inline_functions(changed.graph, changed)
        return onnx.load_from_string(to_proto(changed).SerializeToString())

    def verdict(self, thorough: bool) -> Verdict:
        before = _copies(self.feeds)
        try:
            subject = session(self.contents)
            got = subject.run(None, self.feeds)
        except Exception as error:  # noqa: BLE001  any error of the subject is a failure
            return self._refused(error)
        if not identical(before, list(self.feeds.values())):
            self._report("feeds", "a feed was written to")
        try:
            nodes = self._traced()
        except Exception as error:  # noqa: BLE001
            self._report(UNOPTIMIZED, f"{type(error).__name__}: {error}")
            return self._finished()
        random = random_outputs(self.inlined, nodes.values)
        names = [one.name for one in self.model.graph.output]
        self._check_session(subject, got, bool(random))
        self.oracles.add(UNOPTIMIZED)
        for mismatch in mismatches(list(got), [nodes.values[name] for name in names]):
            explanation = _design_before(names[mismatch.path[0]], nodes, UNOPTIMIZED, mismatch) or self._conditioning(mismatch)
            self._report(UNOPTIMIZED, str(mismatch), explanation)
        self.differences += nodes.differences()
        self.oracles |= nodes.answered
        self._compare_whole(got, names, nodes, random)
        if thorough:
            self._compare_configurations(got, names, nodes)
        self.refusals.update(nodes.refusals)
        return self._finished(tuple(nodes.unjudged))

    def _finished(self, unjudged: tuple[str, ...] = ()) -> Verdict:
        if self.conditioning.failure:
            self.refusals[CONDITIONING] = self.conditioning.failure
        return Verdict(tuple(self.differences), tuple(sorted(self.oracles)), self.refusals, unjudged=unjudged)

    def _refused(self, error: Exception) -> Verdict:
        """A model that every oracle refuses is not valid; one that some oracle runs is a failure of ort-lite.

        Without optimizations, ort-lite is one of them.
        """
        text = f"{type(error).__name__}: {error}"
        reason = crash_at_load(self.model) or crash(self.model, {**constants(self.model), **self.feeds})
        asked = [name for name in ORACLES if name != ONNXRUNTIME or not reason]
        answers = {name: ORACLES[name](self.model, self.feeds) for name in asked}
        answers[UNOPTIMIZED] = self._unoptimized()
        self.refusals.update({oracle: found for oracle, found in answers.items() if isinstance(found, str)})
        if len(self.refusals) == len(answers):
            return Verdict((), (), self.refusals, text)
        self._report(SUBJECT, text)
        return self._finished()

    def _unoptimized(self) -> Answer:
        try:
            return session(self.contents, GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, self.feeds)
        except Exception as error:  # noqa: BLE001  no answer
            return f"{type(error).__name__}: {error}"

    def _traced(self) -> NodeJudge:
        """Run without optimizations and return every value. Nodes of 16-bit floats that are judged one by one round one by one."""
        contents = all_outputs(self.inlined).SerializeToString()
        config = {ROUNDING: "nodes"} if _has_halves(self.inlined) else {}
        subject = session(contents, GraphOptimizationLevel.ORT_DISABLE_ALL, config=config)
        outputs = subject.get_outputs()
        values = {**constants(self.inlined), **self.feeds}
        values.update(zip((one.name for one in outputs), subject.run(None, self.feeds), strict=True))
        types = {one.name: one.type for one in (*subject.get_inputs(), *outputs)}
        return NodeJudge(self.inlined, values, types)

    def _check_session(self, subject: InferenceSession, got: Sequence[Any], random: bool) -> None:
        """A second run gives the same bits, and outputs are as the session foretells them."""
        if not random and not identical(got, subject.run(None, self.feeds)):
            self._report("second run", "two runs give different bits")
        for declared, value in zip(subject.get_outputs(), got, strict=True):
            if isinstance(value, np.ndarray) and declared.type != "unknown" and not _fits(declared.type, declared.shape, value):
                found = f"{from_numpy(value.dtype)}{list(value.shape)}"
                self._report("foretold type", f"{declared.name}: {declared.type}{declared.shape} foretold, {found} came")

    def _compare_whole(self, got: Sequence[Any], names: Sequence[str], nodes: NodeJudge, random: set[str]) -> None:
        """The whole model in onnxruntime. A node that it computes wrongly explains what depends on it."""
        expected = crash_at_load(self.model) or crash(self.inlined, nodes.values) or of_onnxruntime(self.model, self.feeds)
        if isinstance(expected, str):
            self.refusals["onnxruntime, whole model"] = expected
            return
        for mismatch in mismatches(list(got), expected):
            name = names[mismatch.path[0]]
            if name in random:
                continue
            explanation = self._defect_before(name, nodes, mismatch) or _design_before(name, nodes, UNOPTIMIZED, mismatch)
            explanation = explanation or self._conditioning(mismatch)
            self._report("onnxruntime, whole model", str(mismatch), explanation)

    def _compare_configurations(self, got: Sequence[Any], names: Sequence[str], nodes: NodeJudge) -> None:
        """Other configurations of ort-lite, none of which may refuse the model."""
        for name, found in configurations(self.contents, self.feeds):
            if isinstance(found, str):
                self._report(name, found)
                continue
            self.oracles.add(name)
            for mismatch in mismatches(list(got), found):
                level = UNOPTIMIZED if name == "ORT_DISABLE_ALL" else name
                explanation = _design_before(names[mismatch.path[0]], nodes, level, mismatch) or self._conditioning(mismatch)
                self._report(name, str(mismatch), explanation)

    def _defect_before(self, output: str, nodes: NodeJudge, mismatch: Mismatch) -> str:
        """Name a defect of a node that the output depends on. Some show only in whole models, where sizes are not known at load."""
        before = upstream(self.inlined, output)
        wrong = nodes.defects.get(ONNXRUNTIME, {})
        found = next((wrong[name] for node in before for name in node.output if name in wrong), "")
        if found or mismatch.where is not None:
            return found
        loops = [Site(node, 1, nodes.values) for node in before if node.op_type in ("Loop", "Scan")]
        return next((name for site in loops if (name := defect_of(site, ONNXRUNTIME, mismatch))), "")

    def _conditioning(self, mismatch: Mismatch) -> str:
        return CONDITIONING if self.conditioning.explains(mismatch) else ""

    def _report(self, oracle: str, text: str, explanation: str = "") -> None:
        self.differences.append(Difference(oracle, text, explanation))


def _design_before(output: str, nodes: NodeJudge, configuration: str, mismatch: Mismatch) -> str:
    """Name the node on which the output depends that computes otherwise in a configuration by design, "" for none."""
    before = (Site(node, 1, nodes.values) for node in upstream(nodes.model, output))
    return next((name for site in before if (name := defect_of(site, configuration, mismatch))), "")


def _copies(feeds: Mapping[str, Any]) -> list[Any]:
    return [_copy(value) for value in feeds.values()]


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value.copy() if isinstance(value, np.ndarray | dict) else value


def _has_halves(model: onnx.ModelProto) -> bool:
    """Return True if 16-bit floats may be in the model."""
    codes = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    declared = [one.type.tensor_type.elem_type for one in model.graph.input]
    constant = [one.data_type for one in model.graph.initializer]
    attributes = [one for node in model.graph.node for one in node.attribute]
    named = [one.i for one in attributes if one.type == onnx.AttributeProto.INT and one.name in ("to", "dtype", "output_dtype")]
    return any(code in codes for code in (*declared, *constant, *named, *(one.t.data_type for one in attributes)))


def _fits(type_: str, shape: Sequence[int | str | None], value: Any) -> bool:
    """Return True if an array is what `get_outputs` foretold. An optional that has an element comes as the element."""
    if type_.removeprefix("optional(").rstrip(")") != ort_name(from_numpy(value.dtype)).rstrip(")"):
        return False
    if shape and len(shape) != value.ndim:
        return False
    return all(n == size for n, size in zip(shape, value.shape, strict=False) if isinstance(n, int))
