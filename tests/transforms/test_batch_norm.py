import pytest

from ort_lite_transforms.batch_norm import fuse_conv_batch_norm, fuse_gemm_batch_norm
from tests.text_graphs import check

NORM = (
    "<float[4] s = {1, 2, 0.5, -1}, float[4] t = {0.1, 0.2, 0.3, 0.4}, float[4] m = {1, -1, 0, 2}, float[4] v = {1, 4, 0.25, 2}"
)


def numbers(count: int) -> str:
    return ", ".join(str(k % 7 - 3) for k in range(count))


CONV = f"""{NORM}, float[4,2,3,3] w = {{{numbers(72)}}}, float[4,1,3,3] deep = {{{numbers(36)}}},
  float[3,4,2,2] up = {{{numbers(48)}}}, float[6,2,2,2] up2 = {{{numbers(48)}}}, float[4] b = {{1, 2, 3, 4}}>"""
GEMM = f"""{NORM}, float[3,4] w = {{{numbers(12)}}}, float[4,3] u = {{{numbers(12)}}}, float[4] b = {{1, 2, 3, 4}},
  float[2,1] rows = {{1, 2}}>"""
IMAGE = "(float[N,2,H,W] x) => (float[N,4,h,w] z)"


@pytest.mark.parametrize("bias", ["", ", b"])
@pytest.mark.parametrize("attributes", ["", "<epsilon=0.1>"])
def test_a_convolution_takes_the_normalisation(bias: str, attributes: str) -> None:
    before = f"{{ y = Conv<pads=[1,1,1,1]>(x, w{bias}) z = BatchNormalization{attributes}(y, s, t, m, v) }}"
    check(fuse_conv_batch_norm, IMAGE, before, "{ z = Conv<pads=[1,1,1,1]>(x, w, b) }", constants=CONV)


def test_a_grouped_convolution_takes_it() -> None:
    before = "{ y = Conv<group=2>(x, deep) z = BatchNormalization(y, s, t, m, v) }"
    check(
        fuse_conv_batch_norm,
        "(float[N,2,5,5] x) => (float[N,4,3,3] z)",
        before,
        "{ z = Conv<group=2>(x, deep, b) }",
        constants=CONV,
    )


@pytest.mark.parametrize(("group", "weights"), [(1, "up"), (2, "up2")])
def test_a_transposed_convolution_takes_it(group: int, weights: str) -> None:
    before = f"{{ y = ConvTranspose<group={group}>(x, {weights}) z = BatchNormalization(y, s, t, m, v) }}"
    after = f"{{ z = ConvTranspose<group={group}>(x, {weights}, b) }}"
    signature = f"(float[N,{3 * group},5,5] x) => (float[N,4,6,6] z)"
    check(fuse_conv_batch_norm, signature, before, after, constants=CONV)


def test_does_not_fire_when_the_convolution_has_other_readers() -> None:
    before = "{ y = Conv(x, w) z = BatchNormalization(y, s, t, m, v) u = Relu(y) }"
    signature = "(float[N,2,5,5] x) => (float[N,4,3,3] z, float[N,4,3,3] u)"
    check(fuse_conv_batch_norm, signature, before, constants=CONV, skip="y has other readers")


def test_does_not_fire_when_the_weights_are_computed() -> None:
    before = "{ k = Neg(w) y = Conv(x, k) z = BatchNormalization(y, s, t, m, v) }"
    check(fuse_conv_batch_norm, "(float[N,2,5,5] x) => (float[N,4,3,3] z)", before, constants=CONV, skip="are not constant")


@pytest.mark.parametrize(
    ("gemm", "bias"),
    [("Gemm(x, w, b)", "b"), ("Gemm<beta=0.5>(x, w, b)", "b"), ("Gemm<transB=1>(x, u, b)", "b"), ("Gemm(x, w)", "b")],
)
def test_a_gemm_takes_the_normalisation(gemm: str, bias: str) -> None:
    weight = "u" if "u" in gemm else "w"
    transposed = "transB=1, " if weight == "u" else ""
    before = f"{{ y = {gemm} z = BatchNormalization(y, s, t, m, v) }}"
    after = f"{{ z = Gemm<{transposed}beta=1.0>(x, {weight}, {bias}) }}"
    check(fuse_gemm_batch_norm, "(float[N,3] x) => (float[N,4] z)", before, after, constants=GEMM)


def test_does_not_fire_when_the_rows_have_different_biases() -> None:
    before = "{ y = Gemm(x, w, rows) z = BatchNormalization(y, s, t, m, v) }"
    check(fuse_gemm_batch_norm, "(float[2,3] x) => (float[2,4] z)", before, constants=GEMM, skip="differs between rows")
