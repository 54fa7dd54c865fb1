import pytest

from ort_lite_transforms.gemm_activation import fuse_gemm_activation
from tests.text_graphs import check

CONSTANTS = "<float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, float[4] b = {1, 2, 3, 4}>"


@pytest.mark.parametrize(
    ("root", "attributes"),
    [
        ("Relu(y)", 'activation="Relu"'),
        ("Tanh(y)", 'activation="Tanh"'),
        ("LeakyRelu<alpha=0.5>(y)", 'activation="LeakyRelu", activation_alpha=0.5'),
        ("HardSigmoid(y)", 'activation="HardSigmoid", activation_alpha=0.2, activation_beta=0.5'),
    ],
)
def test_a_gemm_takes_an_activation(root: str, attributes: str) -> None:
    before = f"{{ y = Gemm<transB=1>(x, w, b) z = {root} }}"
    after = f"{{ z = com.microsoft.FusedGemm<transB=1, {attributes}>(x, w, b) }}"
    check(fuse_gemm_activation, "(float[N,3] x) => (float[N,4] z)", before, after, constants=CONSTANTS)


def test_does_not_fire_when_the_product_has_other_readers() -> None:
    signature = "(float[N,3] x) => (float[N,4] y, float[N,4] z)"
    check(
        fuse_gemm_activation,
        signature,
        "{ y = Gemm<transB=1>(x, w, b) z = Relu(y) }",
        constants=CONSTANTS,
        skip="y has other readers",
    )
