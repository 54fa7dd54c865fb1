import pytest

from ort_lite_transforms.gelu import compose_gelu
from tests.text_graphs import check

CONSTANTS = "<float root = {1.4142135}, float inverse = {0.70710677}, float one = {1}, float[1] half = {0.5}, float two = {2}>"
SIGNATURE = "(float[A,B] x) => (float[A,B] z)"
GELU = "{ z = Gelu(x) }"


@pytest.mark.parametrize("scaled", ["Div(x, root)", "Mul(x, inverse)", "Mul(inverse, x)"])
@pytest.mark.parametrize(
    "rest",
    [
        "d = Mul(x, c) z = Mul(d, half)",
        "d = Mul(c, x) z = Mul(half, d)",
        "d = Mul(x, half) z = Mul(d, c)",
        "d = Mul(half, c) z = Mul(x, d)",
    ],
)
def test_all_orders_become_gelu(scaled: str, rest: str) -> None:
    check(compose_gelu, SIGNATURE, f"{{ a = {scaled} b = Erf(a) c = Add(b, one) {rest} }}", GELU, constants=CONSTANTS)


def test_in_an_older_model_it_is_that_of_com_microsoft() -> None:
    before = "{ a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) z = Mul(d, half) }"
    check(compose_gelu, SIGNATURE, before, "{ z = com.microsoft.Gelu(x) }", constants=CONSTANTS, opset=17)


@pytest.mark.parametrize(("scale", "outputs", "reason"), [("two", "", None), ("root", ", float[A,B] b", "b has other readers")])
def test_does_not_fire(scale: str, outputs: str, reason: str | None) -> None:
    before = f"{{ a = Div(x, {scale}) b = Erf(a) c = Add(b, one) d = Mul(x, c) z = Mul(d, half) }}"
    check(compose_gelu, SIGNATURE.replace("z)", f"z{outputs})"), before, constants=CONSTANTS, skip=reason)
