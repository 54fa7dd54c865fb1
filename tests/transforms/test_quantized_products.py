"""Products of dequantised bytes."""

import pytest

from ort_lite_transforms.quantized_products import multiply_integers
from tests.text_graphs import check

CONSTANTS = """<int8[3,2] w = {1, -2, 3, 127, -128, 5}, float s = {0.5}, float t = {0.25}, float[2] s2 = {0.5, 2},
  float[3] s3 = {1, 2, 3},
  uint8 z = {7}, int8 zw = {-3}, int8[2] zw2 = {1, -1}, int32[2] b = {100, -7}, float[2] sb2 = {0.25, 1}, float[2] bf = {0.3, -0.4},
  int32[2] zb2 = {0, 0}, int8[4,2,1,1] k = {1, 2, 3, 4, 5, 6, 7, 8}, float[4] s4 = {1, 2, 3, 4},
  float[2] per = {0.25, 1}>"""
A, W = "a = DequantizeLinear(x, s, z)", "c = DequantizeLinear<axis=1>(w, s2, zw2)"
SIGNATURE = "(uint8[M,3] x) => (uint8[M,2] y)"
FLOAT = "(uint8[M,3] x) => (float[M,2] y)"


@pytest.mark.parametrize("domain", ["", "com.microsoft."])
def test_a_product_that_is_quantised_is_one_operator(domain: str) -> None:
    linear = f"{domain}DequantizeLinear"
    before = f"{{ a = {linear}(x, s, z) c = {linear}<axis=1>(w, s2, zw2) p = MatMul(a, c) y = QuantizeLinear(p, t, z) }}"
    check(multiply_integers, SIGNATURE, before, "{ y = QLinearMatMul(x, s, z, w, s2, zw2, t, z) }", constants=CONSTANTS)


def test_zero_points_that_are_left_out_are_zeros() -> None:
    before = "{ a = DequantizeLinear(x, s) c = DequantizeLinear(w, s) p = MatMul(a, c) y = QuantizeLinear(p, t) }"
    after = "{ y = QLinearMatMul(x, s, u, w, s, i, t, u1) }"
    constants = CONSTANTS[:-1] + ", uint8 u = {0}, int8 i = {0}, uint8 u1 = {0}>"
    check(multiply_integers, SIGNATURE, before, after, constants=constants)


def test_a_product_that_stays_float_is_scaled() -> None:
    after = "{ p = MatMulInteger(x, w, z, zw2) q = Cast<to=1>(p) y = Mul(q, per) }"
    check(multiply_integers, FLOAT, f"{{ {A} {W} y = MatMul(a, c) }}", after, constants=CONSTANTS)


def test_a_product_with_another_reader_is_scaled() -> None:
    signature = "(uint8[M,3] x) => (uint8[M,2] y, float[M,2] n)"
    before = f"{{ {A} {W} p = MatMul(a, c) y = QuantizeLinear(p, t, z) n = Neg(p) }}"
    after = "{ i = MatMulInteger(x, w, z, zw2) q = Cast<to=1>(i) p = Mul(q, per) y = QuantizeLinear(p, t, z) n = Neg(p) }"
    check(multiply_integers, signature, before, after, constants=CONSTANTS)


QGEMM = "y = com.microsoft.QGemm<alpha={},transA=0,transB=0>(x, s, z, w, s2, zw2, {}, t, z)"


@pytest.mark.parametrize(
    ("gemm", "bias", "after"),
    [
        ("Gemm(a, c, d)", "d = DequantizeLinear<axis=0>(b, sb2, zb2)", QGEMM.format("1.0", "b")),
        ("Gemm<alpha=2.0>(a, c)", "", QGEMM.format("2.0", "")),
        (
            "Gemm(a, c, bf)",
            "",
            "p = MatMulInteger(x, w, z, zw2) q = Cast<to=1>(p) r = Mul(q, per) v = Add(r, bf) y = QuantizeLinear(v, t, z)",
        ),
    ],
)
def test_gemm_adds_integers_that_count_alike_and_floats_later(gemm: str, bias: str, after: str) -> None:
    before = f"{{ {A} {W} {bias} p = {gemm} y = QuantizeLinear(p, t, z) }}"
    check(multiply_integers, SIGNATURE, before, f"{{ {after} }}", constants=CONSTANTS)


def test_gemm_is_turned_for_the_operator_that_is_not() -> None:
    before = "{ a = DequantizeLinear(x, s) c = DequantizeLinear<axis=0>(w, s3) y = Gemm<transA=1,transB=1,beta=0.5>(a, c, e) }"
    after = """{ i = Transpose<perm=[1,0]>(x) p = MatMulInteger(i, wt, u, zi) q = Cast<to=1>(p) r = Mul(q, steps)
        h = Mul(e, half) y = Add(r, h) }"""
    constants = (
        CONSTANTS[:-1]
        + """, uint8 u = {0}, int8 zi = {0}, int8[2,3] wt = {1, 3, -128, -2, 127, 5},
        float[3] steps = {0.5, 1, 1.5}, float half = {0.5}>"""
    )
    check(multiply_integers, "(uint8[2,M] x, float[3] e) => (float[M,3] y)", before, after, constants=constants)


def test_a_convolution_is_one_operator() -> None:
    signature = "(uint8[N,2,H,H] x) => (uint8[N,4,H,H] y)"
    before = f"{{ {A} c = DequantizeLinear<axis=0>(k, s4) p = Conv<pads=[0,0,0,0]>(a, c) y = QuantizeLinear(p, t, z) }}"
    after = "{ y = QLinearConv<pads=[0,0,0,0]>(x, s, z, k, s4, i, t, z) }"
    check(multiply_integers, signature, before, after, constants=CONSTANTS[:-1] + ", int8 i = {0}>")


def test_a_convolution_that_stays_float_is_scaled_and_gets_its_bias() -> None:
    signature = "(uint8[N,2,H,H] x, float[4] e) => (float[N,4,H,H] y)"
    before = f"{{ {A} c = DequantizeLinear<axis=0>(k, s4) y = Conv(a, c, e) }}"
    after = "{ p = ConvInteger(x, k, z, i) q = Cast<to=1>(p) r = Mul(q, m) f = Reshape(e, around) y = Add(r, f) }"
    constants = CONSTANTS[:-1] + ", int8 i = {0}, float[4,1,1] m = {0.5, 1, 1.5, 2}, int64[3] around = {-1, 1, 1}>"
    check(multiply_integers, signature, before, after, constants=constants)


@pytest.mark.parametrize(
    ("signature", "before", "reason"),
    [
        (
            FLOAT,
            "{ a = DequantizeLinear<axis=1>(x, s3) c = DequantizeLinear(w, s) y = MatMul(a, c) }",
            "a has scales along an axis",
        ),
        (
            FLOAT,
            f"{{ {A} c = DequantizeLinear<axis=0>(w, s3) y = MatMul(a, c) }}",
            "c has scales along axis 0, which is summed over",
        ),
        (
            "(uint8[M,3] x, float t0) => (float[M,2] y)",
            f"{{ a = DequantizeLinear(x, t0) {W} y = MatMul(a, c) }}",
            "no constant",
        ),
        (
            "(uint8[M,3] x, uint8 z0) => (float[M,2] y)",
            f"{{ a = DequantizeLinear(x, s, z0) {W} y = MatMul(a, c) }}",
            "is computed",
        ),
        ("(uint16[M,3] x) => (float[M,2] y)", f"{{ a = DequantizeLinear(x, s) {W} y = MatMul(a, c) }}", "int8 or uint8"),
        ("(uint8[3] x) => (float[2] y)", f"{{ {A} {W} y = MatMul(a, c) }}", "not known to be matrices"),
        (
            "(uint8[M,40000] x, uint8[40000,2] v) => (float[M,2] y)",
            f"{{ {A} c = DequantizeLinear(v, s, z) y = MatMul(a, c) }}",
            "sums of 40000 products may not fit",
        ),
    ],
)
def test_does_not_fire(signature: str, before: str, reason: str) -> None:
    check(multiply_integers, signature, before, constants=CONSTANTS, skip=reason)
