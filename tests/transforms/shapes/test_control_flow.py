"""If, Loop, Scan."""

from collections.abc import Sequence

import onnx.parser
import pytest

from ort_lite.errors import ShapeInferenceError
from ort_lite.inference import Inference, Info
from ort_lite.load.load import load
from tests.transforms.shapes.checking import ALL, scalar, tensor, text, unknown


def outputs(model: str, *inputs: Info, opset: int = 21) -> list[str]:
    """What is inferred of the outputs of a model in ONNX's text format."""
    graph = load(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {model}')).graph
    return [text(info) for info in Inference(ALL).run(graph, inputs)]


def branches(then: str, otherwise: str, condition: Info, *inputs: Info, names: Sequence[str] = ("x",)) -> str:
    """The type of an If with these two branches over the inputs."""
    listed = ", ".join(["bool c", *(f"float[...] {name}" for name in names)]).replace("[...]", "[N, 3]")
    body = f"then_branch = t () => (y1) {{ {then} }}, else_branch = e () => (y2) {{ {otherwise} }}"
    return outputs(f"g ({listed}) => (y) {{ y = If <{body}> (c) }}", condition, *inputs)[0]


X = tensor("float32", "N", 3)


def test_branches_that_agree() -> None:
    assert branches("y1 = Relu(x)", "y2 = Sigmoid(x)", unknown("bool"), X) == "float32[N, 3]"


def test_dims_that_differ_are_fresh() -> None:
    stacked = "y2 = Concat<axis = 0>(x, x)"
    assert branches("y1 = Relu(x)", stacked, unknown("bool"), X) == "float32[y#2, 3]"


def test_ranks_that_differ_are_open() -> None:
    assert branches("y1 = Relu(x)", "y2 = ReduceSum<keepdims = 0>(x)", unknown("bool"), X) == "float32[...]"


def test_a_condition_that_is_known_decides() -> None:
    assert branches("y1 = Relu(x)", "y2 = ReduceSum<keepdims = 0>(x)", scalar(1, "bool"), X) == "float32[N, 3]"
    assert branches("y1 = Relu(x)", "y2 = ReduceSum<keepdims = 0>(x)", scalar(0, "bool"), X) == "float32[]"


def test_a_branch_that_may_not_run_need_not_fit() -> None:
    """Its outputs are open; one that is taken has to fit."""
    wide = tensor("float32", 2, 3)
    assert branches("y1 = Relu(x)", "y2 = MatMul(x, x)", scalar(1, "bool"), wide) == "float32[2, 3]"
    assert branches("y1 = Relu(x)", "y2 = MatMul(x, x)", unknown("bool"), wide) == "float32[...]"
    assert branches("y1 = Relu(x)", "z = MatMul(x, x) y2 = Sigmoid(x)", unknown("bool"), wide) == "float32[2, 3]"
    with pytest.raises(ShapeInferenceError, match=r"dimensions 2 and 3 should be equal.*; in 'e' of If"):
        branches("y1 = Relu(x)", "y2 = MatMul(x, x)", scalar(0, "bool"), wide)


def test_element_types_that_differ_are_refused() -> None:
    with pytest.raises(ShapeInferenceError, match="element types differ"):
        branches("y1 = Relu(x)", "y2 = Cast<to = 7>(x)", unknown("bool"), X)


def test_dims_that_only_a_branch_knows_are_fresh_outside() -> None:
    inner = "p = NonZero(x) y1 = Cast<to = 1>(p)"
    assert branches(inner, "y2 = Relu(x)", scalar(1, "bool"), X) == "float32[2, y#2]"


def loop(body: str, trips: Info, keep_going: Info, *states: Info, types: str) -> list[str]:
    return outputs(
        f"g (int64 m, bool c, {types}) => (final, scanned) {{ final, scanned = Loop <body = b (i, go, s) => (on, t, each) "
        f"{{ {body} }}> (m, c, s0) }}",
        trips,
        keep_going,
        *states,
    )


def test_states_that_keep_their_shape() -> None:
    body = "on = Identity(go) t = Relu(s) each = ReduceSum<keepdims = 0>(s)"
    found = loop(body, scalar(5), scalar(1, "bool"), X, types="float[N, 3] s0")
    assert found == ["float32[N, 3]", "float32[5]"]


def test_states_that_grow_are_fresh() -> None:
    body = "on = Identity(go) t = Concat<axis = 0>(s, s) each = Relu(s)"
    grown, every = loop(body, scalar(5), scalar(1, "bool"), X, types="float[N, 3] s0")
    assert grown.startswith("float32[final#")
    assert grown.endswith(", 3]")
    assert every.startswith("float32[5, final#")


def test_a_state_without_elements_grows_along_an_open_axis() -> None:
    """It has no contents any more: those of no elements cannot take a shape that is open."""
    empty = tensor("int64", 2, 0, 1, contents=[])
    body = "on = Identity(go) t = Concat<axis = -1>(s, s) each = Transpose(t)"
    grown, every = loop(body, scalar(5), scalar(1, "bool"), empty, types="int64[2, 0, M] s0")
    assert grown.startswith("int64[2, 0, final#")
    assert every.startswith("int64[5, final#")
    assert every.endswith(", 0, 2]")


def test_a_state_that_changes_its_rank_is_open() -> None:
    body = "on = Identity(go) axes = Constant<value = int64[1] {0}>() t = Unsqueeze(s, axes) each = Identity(i)"
    assert loop(body, scalar(2), scalar(1, "bool"), X, types="float[N, 3] s0")[0] == "float32[...]"


def test_turns_that_are_not_counted_are_fresh() -> None:
    body = "on = Identity(go) t = Relu(s) each = Identity(i)"
    assert loop(body, unknown("int64"), scalar(1, "bool"), X, types="float[N, 3] s0")[1] == "int64[final#1]"
    stops = "zero = Constant<value_int = 0>() on = Greater(i, zero) t = Relu(s) each = Identity(i)"
    assert loop(stops, scalar(5), scalar(1, "bool"), X, types="float[N, 3] s0")[1].startswith("int64[final#")
    assert loop(stops, scalar(5), scalar(0, "bool"), X, types="float[N, 3] s0")[1] == "int64[0]"


@pytest.mark.parametrize(("trips", "going"), [(0, 1), (-1, 1), (5, 0)])
def test_without_a_turn_states_stay_as_they_are(trips: int, going: int) -> None:
    body = "on = Identity(go) t = Concat<axis = 0>(s, s) each = MatMul(s, s)"
    found = loop(body, scalar(trips), scalar(going, "bool"), tensor("float32", 2, 3), types="float[N, 3] s0")
    assert found[0] == "float32[2, 3]"


def test_a_turn_that_may_not_come_need_not_fit() -> None:
    body, wide = "on = Identity(go) t = Relu(s) each = MatMul(s, s)", tensor("float32", 2, 3)
    assert loop(body, unknown("int64"), scalar(1, "bool"), wide, types="float[N, 3] s0") == ["float32[2, 3]", "float32[...]"]
    with pytest.raises(ShapeInferenceError, match=r"dimensions 2 and 3 should be equal.*; in 'b' of Loop"):
        loop(body, scalar(1), scalar(1, "bool"), wide, types="float[N, 3] s0")


def test_contents_that_a_turn_changes_are_not_known_after_it() -> None:
    body = "on = Identity(go) one = Constant<value_int = 1>() t = Add(s, one) each = Identity(i)"
    assert loop(body, scalar(5), scalar(1, "bool"), scalar(0), types="int64 s0")[0] == "int64[]"
    body = "on = Identity(go) t = Identity(s) each = Identity(i)"
    assert loop(body, scalar(5), scalar(1, "bool"), scalar(7), types="int64 s0")[0] == "int64[] = [7]"


SCAN = "b (s, x) => (t, each) { t = Add(s, x) each = Mul(x, x) }"


def test_scans_take_slices_and_stack_results() -> None:
    found = outputs(
        "g (float[H] s0, float[T, H] xs) => (final, every) { "
        f"final, every = Scan <num_scan_inputs = 1, body = {SCAN}> (s0, xs) }}",
        tensor("float32", 4),
        tensor("float32", "T", 4),
    )
    assert found == ["float32[4]", "float32[T, 4]"]


@pytest.mark.parametrize("length", [0, 1])
def test_slices_that_do_not_come_need_not_fit(length: int) -> None:
    model = (
        "g (float[H] s0, float[T, H] xs) => (final, every) { final, every = Scan <num_scan_inputs = 1, "
        "body = b (s, x) => (t, each) { t = Add(s, x) each = Mul(x, x) }> (s0, xs) }"
    )
    given = tensor("float32", 4), tensor("float32", length, 3)
    if length:
        with pytest.raises(ShapeInferenceError, match="; in 'b' of Scan"):
            outputs(model, *given)
    else:
        assert outputs(model, *given) == ["float32[4]", "float32[0, 3]"]


def test_scan_axes_may_be_others() -> None:
    found = outputs(
        "g (float[H] s0, float[H, T] xs) => (final, every) { final, every = Scan <num_scan_inputs = 1, scan_input_axes = [1], "
        f"scan_output_axes = [-1], body = {SCAN}> (s0, xs) }}",
        tensor("float32", 4),
        tensor("float32", 4, "T"),
    )
    assert found == ["float32[4]", "float32[4, T]"]


def test_before_opset_9_scans_have_a_batch() -> None:
    found = outputs(
        "g (float[B, H] s0, float[B, T, H] xs) => (final, every) { "
        f"final, every = Scan <num_scan_inputs = 1, body = {SCAN}> (, s0, xs) }}",
        tensor("float32", "B", 4),
        tensor("float32", "B", "T", 4),
        opset=8,
    )
    assert found == ["float32[B, 4]", "float32[B, T, 4]"]
