import pytest

from ort_lite.transform import LocalRule
from ort_lite_transforms.conv_affine import fuse_conv_bias, fuse_conv_scale
from tests.text_graphs import check

W = ", ".join(str(k % 7 - 3) for k in range(72))
CONSTANTS = f"""<float[4,2,3,3] w = {{{W}}}, float[4] b = {{1, 2, 3, 4}}, float[4,1,1] c = {{1, 2, -0.5, 4}},
  float[1,4,1,1] d = {{1, 2, -0.5, 4}}, float one = {{2.5}}, float[3] columns = {{1, 2, 3}}, float[1,1,1,1,1] deep = {{2}}>"""
SIGNATURE = "(float[N,2,5,5] x) => (float[N,4,3,3] z)"
FIVE = "(float[N,2,5,5] x) => (float[1,N,4,3,3] z)"


@pytest.mark.parametrize("root", ["Mul(y, c)", "Mul(d, y)", "Mul(y, one)", "Div(y, c)"])
@pytest.mark.parametrize("bias", ["", ", b"])
def test_a_factor_for_each_channel_goes_into_the_weights(root: str, bias: str) -> None:
    check(fuse_conv_scale, SIGNATURE, f"{{ y = Conv(x, w{bias}) z = {root} }}", "{ z = Conv(x, w, b) }", constants=CONSTANTS)


@pytest.mark.parametrize("root", ["Add(y, c)", "Add(d, y)", "Add(one, y)", "Sub(y, c)"])
@pytest.mark.parametrize("bias", ["", ", b"])
def test_a_number_for_each_channel_goes_into_the_bias(root: str, bias: str) -> None:
    check(fuse_conv_bias, SIGNATURE, f"{{ y = Conv(x, w{bias}) z = {root} }}", "{ z = Conv(x, w, b) }", constants=CONSTANTS)


def test_a_chain_of_them_goes() -> None:
    before = "{ a = Conv(x, w) b1 = Mul(a, c) d1 = Add(b1, d) e = Div(d1, c) z = Sub(e, one) }"
    check([fuse_conv_scale, fuse_conv_bias], SIGNATURE, before, "{ z = Conv(x, w, b) }", constants=CONSTANTS)


@pytest.mark.parametrize("root", ["Div(c, y)", "Sub(c, y)"])
def test_does_not_fire_when_the_convolution_is_the_second_operand(root: str) -> None:
    check([fuse_conv_scale, fuse_conv_bias], SIGNATURE, f"{{ y = Conv(x, w) z = {root} }}", constants=CONSTANTS)


BOTH_RESULTS = "(float[N,2,5,5] x) => (float[N,4,3,3] y, float[N,4,3,3] z)"


@pytest.mark.parametrize(
    ("rule", "signature", "root", "reason"),
    [
        (fuse_conv_scale, SIGNATURE, "Mul(y, columns)", "not one factor for each channel"),
        (fuse_conv_bias, SIGNATURE, "Add(y, columns)", "not one number for each channel"),
        (fuse_conv_bias, FIVE, "Add(y, deep)", "not one number for each channel"),
        (fuse_conv_scale, BOTH_RESULTS, "Mul(y, c)", "y has other readers"),
    ],
)
def test_does_not_fire(rule: LocalRule, signature: str, root: str, reason: str) -> None:
    check(rule, signature, f"{{ y = Conv(x, w) z = {root} }}", constants=CONSTANTS, skip=reason)
