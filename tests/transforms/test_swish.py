import pytest

from ort_lite import plugins
from ort_lite.stages.transform import transform
from ort_lite_transforms.swish import compose_swish
from tests.text_graphs import check, model, same_outputs

SIGNATURE = "(float[A,B] x) => (float[A,B] z)"


@pytest.mark.parametrize("product", ["Mul(x, a)", "Mul(a, x)"])
def test_a_value_times_its_sigmoid_becomes_swish(product: str) -> None:
    body = f"{{ a = Sigmoid(x) z = {product} }}"
    original, changed = model(SIGNATURE, body), model(SIGNATURE, body)
    transform(changed, [compose_swish], "extended", rules=plugins.shape_rules())
    assert [(node.op_type, node.version) for node in changed.graph] == [("Swish", 24)]
    same_outputs(original, changed, 1e-6)


def test_does_not_fire_when_the_sigmoid_has_other_readers() -> None:
    check(
        compose_swish,
        "(float[A] x) => (float[A] a, float[A] z)",
        "{ a = Sigmoid(x) z = Mul(x, a) }",
        skip="a has other readers",
    )


def test_does_not_fire_when_another_value_is_gated() -> None:
    check(compose_swish, "(float[A] x, float[A] y) => (float[A] z)", "{ a = Sigmoid(x) z = Mul(y, a) }")
