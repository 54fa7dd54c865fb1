"""Generated nodes whose operands have one dimension more or less, or an element at or beyond its limits, as their schemas state them.

    python -m tests.inference.shape_mutants [Operator ...]

checks all versions of the operators (default: all) at load and in runs. A mutant that is refused when its sizes are declared must be
refused by the run of a session whose sizes are open, with an error that names the node; one that is accepted must run.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

from ort_lite import InferenceSession
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite.inference import Inference
from ort_lite.inference.annotate import annotate
from ort_lite.inference.form import check_form
from ort_lite.inference.shape_agreement import _Agreement
from ort_lite.load.load import load
from ort_lite.plugins import plugins
from ort_lite.record import Record
from ort_lite.testing.generated import Cases, GeneratedCase
from ort_lite.testing.generator import GenerationTarget

RULES = plugins.shape_rules()
CASES = Cases()
DRAWS = 3
"""Nodes of each operator version."""


class Mutant(Record, eq=False):
    """A change of one input: its name, what the change is, the array, and whether the schema says it fits (None: nothing)."""

    name: str
    change: str
    array: Array
    fits: bool | None = None

    @property
    def is_empty(self) -> bool:
        """Return True if a size is 0, which models do not declare: it is open."""
        return not self.array.size


def versions() -> list[GenerationTarget]:
    """Every operator version that has a recipe, in its usual types."""
    return [target for domain, op_type in CASES.operators for target in CASES.usual(domain, op_type)]


def nodes(target: GenerationTarget, draws: int = DRAWS) -> Iterator[GeneratedCase]:
    """A few nodes of a version, alone and without bodies, which see outer sizes."""
    for number in range(draws):
        case = CASES.alone("attributes", target, number)
        if case is None or len(case.nodes) != 1 or any(attribute.g.node for attribute in case.nodes[0].attribute):
            continue
        if all(isinstance(case.feeds[0].get(info.name), np.ndarray) for info in case.model.graph.input):
            yield case


def arrays(case: GeneratedCase) -> dict[str, Any]:
    """The inputs of the node, those that are no tensors among them."""
    return {**case.feeds[0], **case.constants}


def mutants(case: GeneratedCase) -> Iterator[Mutant]:
    """All changes of the node's operands: each dimension, and of operands with limits, one element."""
    [node] = load(declared(case, {}, True)).graph
    templates, every = RULES.schemas.templates(node), arrays(case)
    agreement = _Agreement(node, [None if one is None else Inference(RULES).of(one) for one in node.inputs], ValueError, None)
    found = agreement.check(templates) if templates else []
    declared_sizes = all(array.size for array in every.values())  # a size of 0 is open
    certain = {(one.name, at % len(one.shape)) for one in found for at in _certain(one, found, node) if declared_sizes}
    for name in dict.fromkeys(case.nodes[0].input):
        array = every.get(name, np.zeros(()))
        read = list(case.nodes[0].input).count(name)
        for axis, size in enumerate(array.shape):
            fits = False if (name, axis) in certain and read == 1 else None
            yield Mutant(name, f"dimension {axis} one more", _longer(array, axis), fits)
            if size:
                yield Mutant(name, f"dimension {axis} one less", array.take(range(size - 1), axis), fits)
    for one in found:
        yield from _element_mutants(one, every[one.name], agreement, len(every[case.nodes[0].input[0]].shape))


def _certain(one: Any, found: Sequence[Any], node: Node) -> Iterator[int]:
    """The dims of an operand that another operand, an attribute or a number determines too, by the text alone."""
    named = Counter(name for other in found if not other.form.broadcast for _, name in other.form.names)
    runs = Counter(other.form.run for other in found if not other.form.broadcast)
    if one.form.broadcast:
        return
    for at, name in one.form.names:
        if named[name] > 1 or isinstance(node.attr(name), int):
            yield at
    yield from (at for at, formula in one.form.formulas if formula.text.isdigit())
    if one.form.run and runs[one.form.run] > 1:
        yield from range(one.form.run_at, len(one.shape) - (one.form.rank - one.form.run_at))


def _longer(array: Array, axis: int) -> Array:
    if array.shape[axis]:
        return np.concatenate([array, array.take([0], axis)], axis)
    return np.zeros([size + (k == axis) for k, size in enumerate(array.shape)], array.dtype)


def _element_mutants(one: Any, array: Array, agreement: _Agreement, rank: int) -> Iterator[Mutant]:
    """Elements at the limits that the schema states, and beyond them."""
    template = one.template
    low = agreement._value(template.low) if template.low else (-rank, "") if template.is_axis else None
    high = agreement._value(template.high) if template.high else (rank - 1, "") if template.is_axis else None
    if not array.size or array.dtype.kind not in "iu":
        return
    if low is not None:
        yield from (_with(one.name, array, low[0] - beyond, "least", beyond) for beyond in (0, 1))
    if high is not None:
        yield from (_with(one.name, array, high[0] + beyond, "greatest", beyond) for beyond in (0, 1))


def _with(name: str, array: Array, element: Any, which: str, beyond: int) -> Mutant:
    changed = array.copy()
    changed.reshape(-1)[-1] = element
    return Mutant(name, f"{which} element{' and one beyond' * beyond}, {element}", changed, not beyond)


def declared(case: GeneratedCase, changed: Mapping[str, Array], fixed: bool) -> onnx.ModelProto:
    """The model with other inputs; their sizes are declared as numbers, or open."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info in model.graph.input:
        array = changed.get(info.name, case.feeds[0].get(info.name))
        if isinstance(array, np.ndarray) and info.type.HasField("tensor_type"):
            shape = info.type.tensor_type.shape
            del shape.dim[:]
            for axis, size in enumerate(array.shape):
                dim = shape.dim.add()
                if fixed:
                    dim.dim_value = size
                else:
                    dim.dim_param = f"{info.name}_{axis}"
            info.type.tensor_type.shape.CopyFrom(shape)
    for position, tensor in enumerate(model.graph.initializer):
        if tensor.name in changed:
            model.graph.initializer[position].CopyFrom(onnx.numpy_helper.from_array(changed[tensor.name], tensor.name))
    return model


def named(error: Exception, name: str) -> str:
    """The text of an error, which must name the node."""
    if name.rstrip("'") not in str(error):  # transforms split nodes: 'Sum_0_1'
        raise AssertionError(f"the error does not name the node {name}: {error}")
    return str(error)


def verdict(proto: onnx.ModelProto, name: str) -> str:
    """Why the front of a session refuses the model; "" where it accepts it. Other errors than those of a model are raised."""
    try:
        found = load(proto)
        check_form(found, RULES)
        annotate(found.graph, RULES)
    except InvalidArgument as error:
        return named(error, name)
    return ""


def node_name(case: GeneratedCase) -> str:
    """The name of the node, as errors have it."""
    return repr(case.nodes[0].name)


def findings_at_load(case: GeneratedCase) -> Iterator[tuple[Mutant, str, str]]:
    """(mutant, why it is refused, what is wrong with that), "" where nothing is."""
    assert verdict(declared(case, {}, True), node_name(case)) == "", f"{case.name} is no valid node"
    for mutant in mutants(case):
        try:
            refused = verdict(declared(case, {mutant.name: mutant.array}, True), node_name(case))
        except Exception as error:  # noqa: BLE001 - of whatever class: a finding
            yield mutant, "", f"{type(error).__name__}: {error}"
            continue
        known = mutant.array.dtype.kind not in "iu" or "element" not in mutant.change or mutant.name in case.constants
        yield mutant, refused, _finding(mutant, refused, "") if known and not mutant.is_empty else ""


def _finding(mutant: Mutant, refused: str, at_load: str) -> str:
    """Return an error in a verdict, or "". An element at its limit may be refused for another reason."""
    if mutant.fits is False and not refused:
        return f"accepted; at load: {at_load or 'accepted'}"
    if mutant.fits and ("has the element" in refused or "out of range" in refused):
        return refused
    return ""


def _is_of_elements(refused: str) -> bool:
    """Return True if an element is refused, which only a run tells."""
    return any(words in refused for words in ("out of range", "has the element", "twice"))


class Runs:
    """The sessions of one case: with open sizes, and none with constants that are changed."""

    def __init__(self, case: GeneratedCase) -> None:
        self.case = case
        self.session = InferenceSession(declared(case, {}, False).SerializeToString(), providers=["CPUExecutionProvider"])
        self.session.run(None, dict(case.feeds[0]))

    def refusal(self, mutant: Mutant) -> str:
        """Why the run refuses a mutant; "" if it runs. Raises what is no error of an argument that names the node."""
        try:
            self.session.run(None, {**self.case.feeds[0], mutant.name: mutant.array})
        except InvalidArgument as error:
            return named(error, node_name(self.case))
        return ""


def findings_in_runs(case: GeneratedCase) -> Iterator[tuple[Mutant, str, str]]:
    """(mutant of a feed, why its run is refused, what is wrong with that), "" where nothing is."""
    runs = Runs(case)
    for mutant, at_load, _ in findings_at_load(case):
        if mutant.name in case.constants:
            continue
        try:
            refused = runs.refusal(mutant)
        except Exception as error:  # noqa: BLE001 - of whatever class: a finding
            yield mutant, "", f"{type(error).__name__}: {error}"
            continue
        wrong = _finding(mutant, refused, at_load)
        later = refused and not at_load and (case.nodes[0].op_type in LATER or _is_of_elements(refused))
        is_open = mutant.is_empty or not all(array.size for array in case.feeds[0].values())
        if mutant.fits is None and not is_open and bool(at_load) != bool(refused) and not later:
            wrong = f"{refused or 'accepted'}; at load: {at_load or 'accepted'}"
        yield mutant, refused, wrong


LATER = {
    "AffineGrid": "the batch is an element of the size",
    "BatchNormalization": "before opset 9 there may be a number for each element of an item",
    "BifurcationDetector": "how many tokens there are follows from an element",
    "CausalConvWithState": "in com.microsoft, attributes select other layouts",
    "Col2Im": "the numbers of blocks follow from elements",
    "Compress": "a condition is counted where the axis is not known",
    "Concat": "a size of 0 is open at load",
    "DecoderMaskedMultiHeadAttention": "queries may be packed with keys and values",
    "DeformConv": "the size of the result follows from attributes",
    "FeatureVectorizer": "a vector counts as one row",
    "FusedConv": "Z has the shape of the result",
    "GroupQueryAttention": "queries may be packed with keys and values",
    "MatMulNBits": "scales may lie in one vector",
    "PRelu": "before opset 7 the slope lies along the channels",
    "Pad": "pads are as many as elements of the axes",
    "Reshape": "the new shape is elements",
    "Resize": "scales are as many as axes",
    "RotaryEmbedding": "the size of a head follows from the caches",
    "SkipLayerNormalization": "rows of skip are repeated",
    "SkipSimplifiedLayerNormalization": "rows of skip are repeated",
    "Split": "sizes of parts are elements",
    "Squeeze": "axes are elements",
    "TensorScatter": "dims but that of one axis are equal",
    **dict.fromkeys(("Adagrad", "Adam", "Momentum"), "inputs come in groups"),
    **dict.fromkeys(
        ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"), "before opset 7 axis aligns the inputs"
    ),
    **dict.fromkeys(
        (
            "Imputer", "LinearClassifier", "LinearRegressor", "Scaler", "SVMClassifier", "SVMRegressor", "TreeEnsemble",
            "TreeEnsembleClassifier", "TreeEnsembleRegressor",
        ),
        "features are as many as attributes have numbers",
    ),
}  # fmt: skip
"""Operators whose runs refuse more than is refused at load, and what the text cannot state."""


def check(target: GenerationTarget, counts: Counter[str], draws: int = DRAWS) -> Iterator[str]:
    """Check a version at load and in runs, and count; what is wrong, a line each."""
    for case in nodes(target, draws):
        for what, function in (("load", findings_at_load), ("run", findings_in_runs)):
            try:
                for mutant, refused, wrong in function(case):
                    counts[f"{what}: {'refused' if refused else 'accepted'}"] += 1
                    if wrong:
                        counts[f"{what}: findings"] += 1
                        yield f"{what}: {target}: {mutant.name} {mutant.change}: {wrong}"
            except NotSupported:
                counts[f"{what}: nodes that nobody runs"] += 1
            except (OrtLiteError, AssertionError) as error:
                counts[f"{what}: nodes that fail"] += 1
                yield f"{what}: {target}: {type(error).__name__}: {error}"


def main(operators: Sequence[str]) -> None:
    """Check all versions of the operators, and print what is wrong."""
    counts: Counter[str] = Counter()
    for target in versions():
        if not operators or target.op_type in operators:
            for line in check(target, counts):
                sys.stdout.write(line[:400] + "\n")
                sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
