"""Every node of a model by itself: the oracles compute it from the values that ort-lite found before it.

An operator that an oracle lacks then costs it one node, not the model; errors do not add up on the way; and where oracles
disagree, the node that they disagree about is known, and what it read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from ort_lite.dtypes import from_numpy
from tests.generated.comparison import EPSILON, Mismatch, mismatches, only_form
from tests.generated.conditioning import Conditioning, InnerConditioning
from tests.generated.defects import crash
from tests.generated.known import ONNXRUNTIME, REFERENCE, find_defect
from tests.generated.oracles import Answer, Feeds, of_onnxruntime, of_onnxruntime_in_float32, of_reference
from tests.generated.ports import find_port
from tests.generated.verdict import Difference
from tests.generated.walk import Site, Values, feeds, reads, single, sites
from tests.operator_traits import traits_of

CONDITIONING = "conditioning"
ORACLES: Mapping[str, Callable[[onnx.ModelProto, Feeds], Answer]] = {ONNXRUNTIME: of_onnxruntime, REFERENCE: of_reference}
IN_FLOAT32 = "onnxruntime in float32"
"""Asked where neither has an operator in its own type."""


class NodeJudge:
    """The nodes of one model without functions.

    `refusals` are by oracle and operator, `unjudged` the operators that no oracle computes.
    """

    def __init__(self, model: onnx.ModelProto, values: Values, types: Mapping[str, str]) -> None:
        self.model, self.values, self.types = model, values, types
        self.refusals: dict[str, str] = {}
        self.answered: set[str] = set()
        self.unjudged: list[str] = []
        self.defects: dict[str, dict[str, str]] = {}
        """By oracle: the outputs of nodes that it computes wrongly, with the names of the defects."""

    def differences(self) -> Iterator[Difference]:
        """Compare node after node."""
        for number, node in enumerate(self.model.graph.node):
            if node.op_type == "Constant" and not node.domain:
                continue
            try:
                model = single(self.model, node, self.values, self.types)
                operands = feeds(model, self.values)
            except KeyError as error:
                self.refusals[node.op_type] = f"a value of unknown type: {error}"
                continue
            answers = {name: self._ask(name, model, operands) for name in ORACLES}
            if all(isinstance(one, str) for one in answers.values()):
                answers[IN_FLOAT32] = self._ask(IN_FLOAT32, model, operands)
            if all(isinstance(one, str) for one in answers.values()):
                self.unjudged.append(_kind(node, self.values, self.types))
            for name, expected in answers.items():
                if isinstance(expected, str):
                    self.refusals[f"{name}, {node.domain}.{node.op_type}"] = expected
                else:
                    self.answered.add(name)
                    yield from self._compare(name, number, model, operands, expected)

    def _ask(self, oracle: str, model: onnx.ModelProto, operands: Feeds) -> Answer:
        if oracle != REFERENCE and (reason := crash(model, {**self.values, **operands})):
            return reason
        return of_onnxruntime_in_float32(model, operands) if oracle == IN_FLOAT32 else ORACLES[oracle](model, operands)

    def _compare(
        self, oracle: str, number: int, model: onnx.ModelProto, operands: Feeds, expected: list[Any]
    ) -> Iterator[Difference]:
        node = model.graph.node[0]
        got = [self.values[name] for name in node.output if name]
        if oracle == IN_FLOAT32:
            got, expected = _narrowed(got, expected)
        found, values = mismatches(got, expected), {**self.values, **operands}
        if is_random(model, values):
            found = [one for one in found if only_form(one)]
        if not found:
            return
        conditioning = Conditioning(model, operands)
        for mismatch in found:
            defect = find_defect(model, values, oracle, mismatch) or self._inner_conditioning(model, operands, mismatch)
            if defect:
                self.defects.setdefault(oracle, {}).update(dict.fromkeys(node.output, defect))
            rounds = not traits_of(node.op_type, node.domain).exact
            explanation = defect or (CONDITIONING if rounds and conditioning.explains(mismatch) else "")
            yield Difference(oracle, f"node {number}, {_kind(node, self.values, self.types)}: {mismatch}", explanation)
        if conditioning.failure:
            self.refusals[f"{CONDITIONING}, {node.domain}.{node.op_type}"] = conditioning.failure

    def _inner_conditioning(self, model: onnx.ModelProto, operands: Feeds, mismatch: Mismatch) -> str:
        """Explain a difference by roundings inside of a node, which the movement of its operands does not show."""
        node = model.graph.node[0]
        opset = next((one.version for one in model.opset_import if one.domain == node.domain), 1)
        if mismatch.where is None or find_port(node.domain, node.op_type, opset) is None:
            return ""
        dtype = from_numpy(mismatch.got.dtype)
        inner = InnerConditioning(model, operands, dtype if dtype in EPSILON else "float32")
        return CONDITIONING if inner.explains(mismatch) else ""


def _narrowed(got: Any, expected: Any) -> tuple[Any, Any]:
    """Compare float64 as float32, and 16-bit floats with rounded ones."""
    if isinstance(got, list) and isinstance(expected, (list, tuple)):
        pairs = [_narrowed(*pair) for pair in zip(got, expected, strict=False)]
        return [one for one, _ in pairs], [other for _, other in pairs]
    if not isinstance(got, np.ndarray) or not isinstance(expected, np.ndarray) or expected.dtype != np.float32:
        return got, expected
    with np.errstate(all="ignore"):
        if got.dtype == np.float64:
            return got.astype(np.float32), expected
        return got, expected.astype(got.dtype) if from_numpy(got.dtype) in ("float16", "bfloat16") else expected


def is_random(model: onnx.ModelProto, values: Values) -> bool:
    """Return True if a node of the model draws random numbers."""
    return any((_draws(site) and not _is_certain(site)) or _drops(site) for site in sites(model, values))


def random_outputs(model: onnx.ModelProto, values: Values) -> set[str]:
    """The names of values that depend on random numbers."""
    found: set[str] = set()
    for node in model.graph.node:
        one = onnx.ModelProto(opset_import=model.opset_import)
        one.graph.node.append(node)
        if found & reads(node) or is_random(one, values):
            found.update(name for name in node.output if name)
    return found


def _draws(site: Site) -> bool:
    return traits_of(site.node.op_type, site.node.domain).random == ()


def _is_certain(site: Site) -> bool:
    """Bernoulli with probabilities of 0 and 1."""
    value = site.operand(0)
    return site.operator == "Bernoulli" and isinstance(value, np.ndarray) and bool(np.all((value == 0) | (value == 1)))


def _drops(site: Site) -> bool:
    if site.operator != "Dropout":
        return site.operator in ("com.microsoft.BiasDropout", "com.microsoft.BitmaskDropout")
    if site.opset < 12:
        return site.opset < 7 and not site.attribute("is_test", 0)
    mode = site.operand(2)
    return bool(mode is not None and mode) or (mode is None and len(site.node.input) > 2 and bool(site.node.input[2]))


def _kind(node: onnx.NodeProto, values: Values, types: Mapping[str, str]) -> str:
    """The operator with the types of its inputs."""
    inputs = (
        str(values[name].dtype) if hasattr(values.get(name), "dtype") else types.get(name, "?") for name in node.input if name
    )
    return f"{node.domain}{'.' if node.domain else ''}{node.op_type}({', '.join(inputs)})"
