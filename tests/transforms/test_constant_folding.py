"""Operators are compared with onnxruntime's result of the node that was folded."""

import numpy as np
import pytest

from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.batch_norm import fuse_conv_batch_norm
from ort_lite_transforms.constant_folding import fold_constants
from ort_lite_transforms.folding_ops import FOLDERS
from tests.text_graphs import check, evaluate, model

CONSTANTS = """<float[2,3] f = {0.5, -1.5, 2.5, -3.5, 4, 0.25}, float[3] g = {2, -3, 0.5}, float[2,3] p = {1, 2, 3, 4, 5, 6},
  int64[2,3] i = {7, -7, 6, -6, 1, 0}, int64[3] j = {2, 2, -4}, int64[3] natural = {2, 0, 1}, bool[3] b = {1, 0, 1},
  int32[3] k = {2147483647, -5, 5}, int32[3] m = {1, 3, -3}, int64[1] n = {1}, int64[2] shape = {3, 2},
  int64[3] copied = {0, -1, 1}, float[3,2] mw = {1, -2, 0.5, 3, -1, 2}, float[2,3,2] batch = {1, 2, 3, 4, 5, 6, -1, 2, -3, 4, -5, 0},
  int64[1] axis0 = {0}, int64[2] starts = {0, -1}, int64[2] ends = {2, -9}, int64[2] axes = {0, 1}, int64[2] steps = {1, -1},
  int64[2] sizes = {1, 2}, int64[4] pads = {1, 0, 0, 2}, int64 zero = {0}, int64 ten = {10}, int64 three = {3},
  float from = {0.5}, float to = {2.1}, float by = {0.5}, int8[2,3] q = {-128, 127, 0, 1, 2, 3}, float s = {0.5}, int8 zp = {3},
  float[3] s3 = {0.5, 1, 2}, int8[3] zp3 = {1, 2, 3}, uint8[3] u = {250, 3, 0}>"""

NODES = [
    "Add(f, g)", "Sub(f, g)", "Mul(i, j)", "Div(f, g)", "Div(i, j)", "Div(k, m)", "Pow(p, g)", "Pow(i, natural)", "Mod(i, j)",
    "Mod<fmod=1>(f, g)", "And(b, b)", "Or(b, b)", "Xor(b, b)", "Not(b)", "Equal(i, j)", "Less(f, g)", "Greater(f, g)",
    "LessOrEqual(f, g)", "GreaterOrEqual(f, g)", "Min(f, g, p)", "Max(f, g, p)", "Sum(f, g, p)", "Neg(f)", "Abs(i)",
    "Sign(f)", "Sqrt(p)", "Reciprocal(f)", "Exp(f)", "Log(p)", "Floor(f)", "Ceil(f)", "Round(f)", "Sin(f)", "Cos(f)",
    "Tanh(f)", "Sigmoid(f)", "Relu(f)", "Cast<to=7>(f)", "Cast<to=10>(f)", "Cast<to=9>(i)", "Cast<to=1>(u)", "Where(b, f, g)",
    "Identity(f)", "Reshape(f, shape)", "Reshape(f, copied)", "Flatten<axis=0>(f)", "Flatten<axis=2>(f)", "Squeeze(n)",
    "Squeeze(n, axis0)", "Unsqueeze(f, axes)", "Transpose(f)", "Transpose<perm=[1,0]>(f)", "Concat<axis=1>(f, p)",
    "Gather(f, n)", "Gather(g, zero)", "Gather<axis=1>(f, steps)", "Slice(f, starts, ends, axes, steps)", "Slice(f, axis0, n)",
    "Expand(g, shape3)", "Tile(f, shape)", "Pad(f, pads)", "Pad(f, pads, s)", "ConstantOfShape(shape)",
    "ConstantOfShape<value = int64[1] {7}>(shape)", "Range(zero, ten, three)", "Range(from, to, by)",
    "Range(ten, zero, minus)", "Trilu(f)", "Trilu<upper=0>(f, minus)", "Shape(f)", "Shape<start=1>(f)", "Size(f)",
    "NonZero(i)", "CumSum(f, three0)", "ReduceSum(f)", "ReduceSum(f, n)", "ReduceSum<keepdims=0>(f, axis0)",
    "ReduceMean(f, n)", "ReduceProd(f)", "ReduceMax(f, n)", "ReduceMin(i, axis0)", "DequantizeLinear(q, s)",
    "DequantizeLinear(q, s, zp)", "DequantizeLinear<axis=1>(q, s3, zp3)", "QuantizeLinear(f, s)", "QuantizeLinear(f, s, zp)",
    "QuantizeLinear<axis=1>(f, s3, zp3)", "MatMul(f, mw)", "MatMul(f, g)", "MatMul(g, mw)", "MatMul(batch, f)", "MatMul(f, batch)",
    "Gemm(f, mw)", "Gemm<transB=1>(f, p, s)", "Gemm<transA=1, alpha=0.5, beta=2.0>(f, p, g)",
    "LayerNormalization(f, g)", "LayerNormalization<epsilon=0.5>(f, g, s3)", "LayerNormalization<axis=-2>(f, p, p)",
    "LayerNormalization<axis=1>(batch, mw)",
]  # fmt: skip
MORE = CONSTANTS[:-1] + ", int64[2] shape3 = {4, 3}, int64 minus = {-1}, int64 three0 = {1}>"


@pytest.mark.parametrize("node", NODES)
def test_a_folded_node_gives_what_onnxruntime_computes(node: str) -> None:
    body = f"{{ c = {node} z = Identity(c) }}"
    plain, folded = (model("() => (float[N] z)", body, MORE) for _ in range(2))
    plain.graph.outputs[0].type = folded.graph.outputs[0].type = None
    (want,) = evaluate(plain, {})
    report = transform(folded, [fold_constants], "basic", rules=plugins.shape_rules())
    assert report.counts == {"fold_constants": 1}
    got = folded.graph.nodes[0].inputs[0]
    assert got is not None and got.constant is not None
    assert (got.constant.dtype, got.constant.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(
        got.constant.astype(np.float64), want.astype(np.float64), rtol=2e-6
    )  # its functions are approximations


def test_bfloat16_is_folded() -> None:
    body = "{ c = Cast<to=16>(f) d = Cast<to=1>(c) z = Add(x, d) }"
    check(fold_constants, "(float[2,3] x) => (float[2,3] z)", body, "{ z = Add(x, f) }", constants=CONSTANTS)


@pytest.mark.parametrize(
    ("node", "left", "right"),
    [
        ("Split<axis=1>(f, sizes)", "float[2,1] v = {0.5, -3.5}", "float[2,2] w = {-1.5, 2.5, 4, 0.25}"),
        ("Split<axis=1, num_outputs=2>(f)", "float[2,2] v = {0.5, -1.5, -3.5, 4}", "float[2,1] w = {2.5, 0.25}"),
    ],
)
def test_split_folds_all_its_outputs(node: str, left: str, right: str) -> None:
    before = f"{{ v, w = {node} y = Add(x, v) z = Add(y, w) }}"
    signature = "(float[2,2] x) => (float[2,2] z)"
    after = "{ y = Add(x, v) z = Add(y, w) }"
    check(fold_constants, signature, before, after, constants=CONSTANTS, after_constants=f"<{left}, {right}>")


def test_what_a_folded_node_feeds_is_folded_in_the_same_pass() -> None:
    before = "{ v = Neg(f) w = Exp(v) y = Transpose(w) z = MatMul(x, y) }"
    constants = CONSTANTS[:-1] + ", float[3,2] y3 = {0, 0, 0, 0, 0, 0}>"
    report = check(fold_constants, "(float[A,3] x) => (float[A,2] z)", before, "{ z = MatMul(x, y3) }", constants=constants)
    assert report.counts == {"fold_constants": 3}


def test_filled_constants_take_no_memory() -> None:
    found = model(
        "(float[1] x) => (float[N,M] z)", "{ c = ConstantOfShape(shape) z = Add(x, c) }", "<int64[2] shape = {10000, 10000}>"
    )
    transform(found, [fold_constants], "basic", rules=plugins.shape_rules())
    constant = found.graph.nodes[0].inputs[1]
    assert constant is not None and constant.constant is not None
    assert constant.constant.shape == (10000, 10000) and constant.constant.strides == (0, 0)


def test_does_not_fire_above_the_limit() -> None:
    body = "{ a = ConstantOfShape(shape) b = Exp(a) z = Gather(b, x) }"
    found = model("(int64[N] x) => (float[N,300] z)", body, "<int64[2] shape = {200, 300}>")
    report = transform(found, [fold_constants], "basic", rules=plugins.shape_rules(), fold_limit=200_000)
    assert [node.op_type for node in found.graph] == ["Exp", "Gather"]
    (skipped,) = report.skipped
    assert "240000 bytes are more than its operands' 4 and the limit of 200000" in skipped.reason


def test_fires_above_the_limit_where_the_result_is_no_larger() -> None:
    found = model(
        "(float[1] x) => (float16[N] z)", "{ a = Cast<to=10>(w) y = Cast<to=10>(x) z = Add(y, a) }", "<float[3] w = {1, 2, 3}>"
    )
    report = transform(found, [fold_constants], "basic", rules=plugins.shape_rules(), fold_limit=0)
    assert report.counts == {"fold_constants": 1}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("Div(i, zeros)", "divides by zero"),
        ("Mod(i, zeros)", "divides by zero"),
        ("Pow(i, j)", "natural number"),
        ('Pad<mode = "reflect">(f, pads)', "only constants"),
        ("CumSum<reverse=1>(f, zero)", "reverse"),
        ("Cast<to=17>(f)", "float8"),
        ("Range(from, big, one)", "elements"),
        ("Tile(f, bigs)", "elements"),
        ("ReduceMean(none)", "nothing to reduce"),
        ("MatMul(i, j)", "elements of int64"),
    ],
)
def test_does_not_fire_where_numpy_would_do_something_else(node: str, reason: str) -> None:
    constants = f"""{CONSTANTS[:-1]}, int64[3] zeros = {{0, 0, 0}}, float big = {{1e12}}, float one = {{1}},
                    int64[2] bigs = {{1000000, 1000000}}, float[0] none = {{}}>"""
    found = model("() => (z)", f"{{ c = {node} z = Identity(c) }}", constants)
    report = transform(found, [fold_constants], "basic", rules=plugins.shape_rules(), fold_limit=1 << 62)
    assert reason in report.skipped[0].reason
    assert [n.output.name for n in found.graph] == ["c", "z"]


def test_does_not_fire_on_an_overridable_initializer() -> None:
    check(fold_constants, "(float[1] x, float[1] c = {1}) => (float[1] z)", "{ d = Neg(c) z = Add(x, d) }")


def test_does_not_fire_when_the_result_is_an_output() -> None:
    check(fold_constants, "() => (float[2,3] z)", "{ z = Neg(f) }", constants=CONSTANTS, skip="z is a graph output")


def test_weights_of_products_in_integers_stay_quantised() -> None:
    """All that reads them is such a product; where anything else does, they are floats, for that and for the product."""
    signature, constants = "(uint8[A,2] x) => (float[A,3] z)", CONSTANTS
    before = "{ a = DequantizeLinear(x, s) c = DequantizeLinear<axis=1>(q, s3, zp3) z = MatMul(a, c) }"
    check(fold_constants, signature, before, constants=constants, skip="products of integers read it")
    floats = CONSTANTS[:-1] + ", float[2,3] c = {-64.5, 125, -6, 0, 0, 0}>"
    both = "{ a = DequantizeLinear(x, s) c = DequantizeLinear<axis=1>(q, s3, zp3) y = MatMul(a, c) z = Add(y, c) }"
    after = "{ a = DequantizeLinear(x, s) y = MatMul(a, c) z = Add(y, c) }"
    check(fold_constants, "(uint8[2,2] x) => (float[2,3] z)", both, after, constants=constants, after_constants=floats)


def test_every_operator_of_the_table_is_tested() -> None:
    tested = {node.partition("(")[0].partition("<")[0] for node in NODES} | {"Split"}
    assert tested == set(FOLDERS)


# The budget


def folded(body: str, constants: str, **budget: int) -> tuple[list[str], list[str]]:
    """The operators that are left, and why."""
    found = model("(float[1] x) => (z)", body, constants)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in budget.items():
            patch.setattr(f"ort_lite.transform.budget.{name}", value)
        report = transform(found, [fold_constants], "basic", rules=plugins.shape_rules())
    return [node.op_type for node in found.graph], [skip.reason for skip in report.skipped]


SIZES = "<int64[1] size = {100000}, int64 ten = {10}>"
FILLED = "c = ConstantOfShape(size)"


def test_a_view_that_stands_for_too_many_bytes_stays() -> None:
    body = f"{{ {FILLED} z = Add(x, c) }}"
    assert folded(body, SIZES) == (["Add"], [])
    left, (reason,) = folded(body, SIZES, LARGEST_VIEW=399_000)
    assert left == ["ConstantOfShape", "Add"]
    assert "its 400000 bytes are more than the 399008 that are left for views of constants" in reason


def test_new_constants_have_a_budget_together() -> None:
    body = f"{{ {FILLED} a = Neg(c) b = Exp(a) d = Sin(b) z = Add(x, d) }}"
    assert folded(body, SIZES) == (["Add"], [])
    left, (reason,) = folded(body, SIZES, NEW_BYTES=900_000)
    assert left == ["Sin", "Add"]
    assert "its 400000 bytes are more than the 100032 that are left for new constants" in reason


def test_weights_extend_the_budget() -> None:
    numbers = ", ".join(["1"] * 1000)
    body, constants = "{ a = Neg(w) b = Exp(a) d = Sin(b) z = Add(x, d) }", f"<float[1000] w = {{{numbers}}}>"
    assert folded(body, constants, NEW_BYTES=0, WORK=0, LARGEST_WORK=0) == (["Add"], [])


def test_work_has_a_budget() -> None:
    body = f"{{ {FILLED} s = ReduceSum(c) z = Add(x, s) }}"
    assert folded(body, SIZES) == (["Add"], [])
    left, (reason,) = folded(body, SIZES, LARGEST_WORK=50_000)
    assert left == ["ReduceSum", "Add"]
    assert "folding it reads and writes 100001 elements, more than the 50064 that are left" in reason


def test_shapes_of_large_constants_cost_nothing() -> None:
    body = f"{{ {FILLED} s = Size(c) f = Cast<to=1>(s) z = Add(x, f) }}"
    assert folded(body, SIZES, LARGEST_WORK=100) == (["Add"], [])


@pytest.mark.parametrize("node", ["Reshape(c, shape)", "Flatten<axis=0>(c)", "Reshape(c, open)"])
def test_a_view_of_one_element_is_reshaped_without_a_copy(node: str) -> None:
    constants = "<int64[1] size = {60000}, int64[2] shape = {300, 200}, int64[2] open = {-1, 2}>"
    found = model("(float[1] x) => (z)", f"{{ {FILLED} d = {node} z = Add(x, d) }}", constants)
    transform(found, [fold_constants], "basic", rules=plugins.shape_rules())
    value = found.graph.nodes[0].inputs[1]
    assert value is not None and value.constant is not None
    assert not any(value.constant.strides) and value.constant.size == 60000


def test_what_a_rule_makes_counts_too() -> None:
    """A rule whose constants exceed the budget leaves the graph as it is, and says why."""
    weights = ", ".join(["1"] * 3200)
    constants = f"<float[800,1,2,2] w = {{{weights}}}, float[800] v = {{{', '.join(['2'] * 800)}}}>"
    found = model("(float[1,1,3,3] x) => (z)", "{ y = Conv(x, w) z = BatchNormalization(y, v, v, v, v) }", constants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ort_lite.transform.budget.NEW_BYTES", 0)
        patch.setattr("ort_lite.transform.budget.PER_WEIGHT", 0)
        report = transform(found, [fuse_conv_batch_norm], "basic", rules=plugins.shape_rules())
    assert [node.op_type for node in found.graph] == ["Conv", "BatchNormalization"]
    assert "12800 bytes, more than are left for new constants" in report.skipped[0].reason
