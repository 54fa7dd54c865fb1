import numpy as np
import pytest

from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.conv_activation import fuse_conv_activation, fuse_conv_sum
from tests.text_graphs import check, model

W = ", ".join(str(k % 7 - 3) for k in range(72))
CONSTANTS = f"<float[4,2,3,3] w = {{{W}}}, float[4] b = {{1, 2, 3, 4}}, float low = {{-1}}, float high = {{2}}>"
SIGNATURE = "(float[N,2,5,5] x) => (float[N,4,3,3] z)"
FUSED = "com.microsoft.FusedConv"


@pytest.mark.parametrize(
    ("root", "attributes"),
    [
        ("Relu(y)", 'activation="Relu"'),
        ("Sigmoid(y)", 'activation="Sigmoid"'),
        ("Tanh(y)", 'activation="Tanh"'),
        ("LeakyRelu(y)", 'activation="LeakyRelu", activation_params=[0.01]'),
        ("LeakyRelu<alpha=0.5>(y)", 'activation="LeakyRelu", activation_params=[0.5]'),
        ("HardSigmoid<alpha=0.25>(y)", 'activation="HardSigmoid", activation_params=[0.25, 0.5]'),
        ("Clip(y, low, high)", 'activation="Clip", activation_params=[-1.0, 2.0]'),
    ],
)
def test_a_convolution_takes_an_activation(root: str, attributes: str) -> None:
    before = f"{{ y = Conv<strides=[1,1]>(x, w, b) z = {root} }}"
    check(
        fuse_conv_activation, SIGNATURE, before, f"{{ z = {FUSED}<strides=[1,1], {attributes}>(x, w, b) }}", constants=CONSTANTS
    )


def test_a_clip_without_an_upper_limit_lets_infinity_through() -> None:
    found = model(SIGNATURE, "{ y = Conv(x, w, b) z = Clip(y, low) }", CONSTANTS)
    transform(found, [fuse_conv_activation], "all", rules=plugins.shape_rules())
    (node,) = found.graph
    assert node.attr("activation_params") == [-1.0, np.inf]


@pytest.mark.parametrize(
    ("root", "name", "params"),
    [
        ("Elu(y)", "Elu", [1.0]),
        ("Swish<alpha=0.5>(y)", "Swish", [0.5]),
        ("com.microsoft.QuickGelu(y)", "Swish", [1.702]),
        ("com.microsoft.QuickGelu<alpha=1.0>(y)", "Swish", [1.0]),
    ],
)
def test_a_convolution_takes_activations_that_onnxruntime_does_not_fuse(root: str, name: str, params: list[float]) -> None:
    found = model(SIGNATURE, f"{{ y = Conv(x, w, b) z = {root} }}", CONSTANTS, 24)
    transform(found, [fuse_conv_activation], "all", rules=plugins.shape_rules())
    (node,) = found.graph
    assert (node.op_type, node.attr("activation")) == ("FusedConv", name)
    assert node.attr("activation_params") == pytest.approx(params)


def test_a_sum_is_taken_before_the_activation() -> None:
    before = "{ y = Conv(x, w) s = Add(r, y) z = Relu(s) }"
    after = f'{{ z = {FUSED}<activation="Relu">(x, w, , r) }}'
    signature = "(float[N,2,5,5] x, float[N,4,3,3] r) => (float[N,4,3,3] z)"
    check([fuse_conv_sum, fuse_conv_activation], signature, before, after, constants=CONSTANTS)


def test_of_two_convolutions_that_are_added_one_takes_the_sum() -> None:
    before = "{ a = Conv(x, w, b) c = Conv(x, w) z = Add(a, c) }"
    after = f"{{ c = Conv(x, w) z = {FUSED}(x, w, b, c) }}"
    check(fuse_conv_sum, SIGNATURE, before, after, constants=CONSTANTS)


def test_the_sum_does_not_fire_on_another_shape() -> None:
    signature = "(float[N,2,5,5] x, float[M,4,3,3] r) => (float[N,4,3,3] z)"
    body = "{ y = Conv(x, w) z = Add(y, r) }"
    feeds = {"x": np.ones((2, 2, 5, 5), np.float32), "r": np.ones((1, 4, 3, 3), np.float32)}
    check(fuse_conv_sum, signature, body, constants=CONSTANTS, skip="is not known to have the type", feeds=feeds)


def test_a_second_activation_stays() -> None:
    before = "{ y = Conv(x, w) a = Relu(y) z = Tanh(a) }"
    after = f'{{ a = {FUSED}<activation="Relu">(x, w) z = Tanh(a) }}'
    check(fuse_conv_activation, SIGNATURE, before, after, constants=CONSTANTS, skip="has an activation already")


@pytest.mark.parametrize(
    ("signature", "body", "reason"),
    [
        (SIGNATURE.replace("x)", "x, float top)"), "y = Conv(x, w) z = Clip(y, low, top)", "a limit of Clip"),
        (SIGNATURE.replace("(float[N,4", "(float[N,4,3,3] y, float[N,4"), "y = Conv(x, w) z = Relu(y)", "y has other readers"),
        ("(float16[N,1,5,5] x, float16[1,1,3,3] k) => (float16[N,1,3,3] z)", "y = Conv(x, k) z = Relu(y)", "takes float32"),
    ],
)
def test_does_not_fire(signature: str, body: str, reason: str) -> None:
    tolerance = 1e-2 if "float16" in signature else 1e-5
    check(fuse_conv_activation, signature, f"{{ {body} }}", constants=CONSTANTS, skip=reason, tolerance=tolerance)
