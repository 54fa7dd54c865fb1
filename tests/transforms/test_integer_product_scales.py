"""Integer products with their scales and biases."""

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.load.save import to_proto
from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.integer_product_scales import fuse_integer_bias, fuse_integer_scales
from tests.text_graphs import check, model

CONSTANTS = """<int8[3,2] w = {1, -2, 3, 127, -128, 5}, float s = {0.5}, float[2] s2 = {0.5, 2}, float one = {1},
  float[4,1] rows = {1, 2, 3, 4}, uint8 z = {7}, int8 zw = {-3}, int8[2] zw2 = {1, -1},
  float[2] b = {0.3, -0.4}, float[1,2] b2 = {0.3, -0.4}>"""
SIGNATURE = "(uint8[M,3] x, float t) => (float[M,2] y)"
FOUR = "(uint8[4,3] x, float t) => (float[4,2] y)"
FUSED = "y = com.microsoft.MatMulIntegerToFloat"


@pytest.mark.parametrize("product", ["Mul(c, f)", "Mul(f, c)"])
@pytest.mark.parametrize("scale", ["Mul(t, s2)", "Mul(s2, t)"])
def test_scales_of_both_operands_go_into_the_product(product: str, scale: str) -> None:
    before = f"{{ i = MatMulInteger(x, w, z, zw2) c = Cast<to=1>(i) f = {scale} y = {product} }}"
    check(fuse_integer_scales, SIGNATURE, before, f"{{ {FUSED}(x, w, t, s2, z, zw2) }}", constants=CONSTANTS)


@pytest.mark.parametrize("factor", ["t", "s", "s2"])
def test_any_other_factor_is_the_right_scale(factor: str) -> None:
    before = f"{{ i = MatMulInteger(x, w, z) c = Cast<to=1>(i) y = Mul(c, {factor}) }}"
    check(fuse_integer_scales, SIGNATURE, before, f"{{ {FUSED}(x, w, one, {factor}, z) }}", constants=CONSTANTS)


def test_products_of_one_dynamic_quantization_share_it() -> None:
    signature = "(float[M,3] x) => (float[M,2] y, float[M,2] u)"
    quantized = "q, t, p = DynamicQuantizeLinear(x)"
    before = f"""{{ {quantized} i = MatMulInteger(q, w, p, zw) c = Cast<to=1>(i) f = Mul(t, s) v = Mul(c, f) y = Add(v, b)
        j = MatMulInteger(q, w, p) d = Cast<to=1>(j) g = Mul(t, s2) u = Mul(d, g) }}"""
    after = f"""{{ {quantized} {FUSED}(q, w, t, s, p, zw, b)
        u = com.microsoft.MatMulIntegerToFloat(q, w, t, s2, p) }}"""
    check([fuse_integer_scales, fuse_integer_bias], signature, before, after, constants=CONSTANTS)


@pytest.mark.parametrize("sum", ["Add(v, b)", "Add(b, v)"])
def test_a_bias_goes_into_the_product(sum: str) -> None:
    before = f"{{ v = com.microsoft.MatMulIntegerToFloat(x, w, t, s) y = {sum} }}"
    check(fuse_integer_bias, SIGNATURE, before, f"{{ {FUSED}(x, w, t, s,,, b) }}", constants=CONSTANTS)


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        ("i = MatMulInteger(x, w) c = Cast<to=1>(i) y = Mul(c, rows)", "rows is not known to be one scale"),
        ("i = MatMulInteger(x, w) c = Cast<to=1>(i) f = Mul(t, rows) y = Mul(c, f)", "f is not known to be one scale"),
        ("i = MatMulInteger(x, w) d = Cast<to=11>(i) e = Cast<to=11>(t) f = Mul(d, e) y = Cast<to=1>(f)", "not of float32"),
    ],
)
def test_scales_stay_behind_the_product(product: str, reason: str) -> None:
    check(fuse_integer_scales, FOUR, f"{{ {product} }}", constants=CONSTANTS, skip=reason)


def test_sums_with_another_reader_stay() -> None:
    signature = "(uint8[M,3] x, float t) => (float[M,2] y, int32[M,2] i)"
    before = "{ i = MatMulInteger(x, w) c = Cast<to=1>(i) y = Mul(c, t) }"
    check(fuse_integer_scales, signature, before, constants=CONSTANTS, skip="i has other readers")


@pytest.mark.parametrize(
    ("product", "bias", "reason"),
    [
        ("x, w, t, s,,, b", "b", "has a bias"),
        ("x, w, t, s", "b2", "b2 is not known to be one number per column"),
    ],
)
def test_a_bias_stays_behind_the_product(product: str, bias: str, reason: str) -> None:
    before = f"{{ v = com.microsoft.MatMulIntegerToFloat({product}) y = Add(v, {bias}) }}"
    check(fuse_integer_bias, SIGNATURE, before, constants=CONSTANTS, skip=reason)


def test_zero_points_of_rows_stay() -> None:
    """onnxruntime has no MatMulInteger of them that `check` could run."""
    before = "{ i = MatMulInteger(x, w, z4) c = Cast<to=1>(i) y = Mul(c, t) }"
    changed = model(FOUR, before, CONSTANTS[:-1] + ", uint8[4] z4 = {1, 2, 3, 4}>")
    report = transform(changed, [fuse_integer_scales], "all", rules=plugins.shape_rules())
    assert [node.op_type for node in changed.graph] == ["MatMulInteger", "Cast", "Mul"]
    assert {skipped.reason for skipped in report.skipped} == {"z4 is not known to be one zero point"}


def test_results_are_onnxruntimes() -> None:
    random = np.random.default_rng(0)
    weights = random.integers(-127, 128, (50, 40), np.int8)
    bias = random.standard_normal(40, np.float32)
    constants = f"""<int8[50,40] w = {{{", ".join(map(str, weights.reshape(-1)))}}}, float s = {{0.0123}}, int8 z = {{0}},
        float[40] b = {{{", ".join(map(str, bias))}}}>"""
    product = "q, t, p = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, p, z) c = Cast<to=1>(i) f = Mul(t, s)"
    feeds = {"x": random.standard_normal((37, 50), np.float32)}
    plain = _run_both(f"{{ {product} y = Mul(c, f) }}", constants, feeds)
    np.testing.assert_array_equal(*plain)
    ours, theirs = _run_both(f"{{ {product} v = Mul(c, f) y = Add(v, b) }}", constants, feeds)
    np.testing.assert_array_equal(ours, theirs)


def _run_both(body: str, constants: str, feeds: dict[str, Array]) -> tuple[Array, Array]:
    """Return the results of ort-lite and of onnxruntime."""
    proto: onnx.ModelProto = to_proto(model("(float[M,50] x) => (float[M,40] y)", body, constants))
    ours = ort_lite.InferenceSession(proto, providers=["CPUExecutionProvider"])
    theirs = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return ours.run(None, feeds)[0], theirs.run(None, feeds)[0]
