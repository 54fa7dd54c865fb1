import pytest

from ort_lite_transforms.swish import compose_swish
from tests.text_graphs import check

SIGNATURE = "(float[A,B] x) => (float[A,B] z)"


@pytest.mark.parametrize("product", ["Mul(x, a)", "Mul(a, x)"])
def test_a_value_times_its_sigmoid_becomes_swish(product: str) -> None:
    check(compose_swish, SIGNATURE, f"{{ a = Sigmoid(x) z = {product} }}", "{ z = Swish(x) }", opset=24)


def test_in_an_older_model_it_becomes_quick_gelu() -> None:
    after = "{ z = com.microsoft.QuickGelu<alpha=1.0>(x) }"
    check(compose_swish, SIGNATURE, "{ a = Sigmoid(x) z = Mul(x, a) }", after, opset=11)


@pytest.mark.parametrize(
    ("gated", "signature", "reason"),
    [
        ("x", "(float[A] x) => (float[A] a, float[A] z)", "a has other readers"),
        ("y", "(float[A] x, float[A] y) => (float[A] z)", None),
    ],
)
def test_does_not_fire(gated: str, signature: str, reason: str | None) -> None:
    check(compose_swish, signature, f"{{ a = Sigmoid(x) z = Mul({gated}, a) }}", skip=reason)
