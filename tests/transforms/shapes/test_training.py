"""Gradient, which no kernel runs."""

from tests.transforms.shapes.checking import infer, tensor, text


def test_gradients_are_shaped_like_their_inputs() -> None:
    pair = [tensor("float32", "N", 3), tensor("float32", 5)]
    found = infer("Gradient", *pair, outputs=1, domain="ai.onnx.preview.training", xs=["a"], zs=["b"], y="c")
    assert [text(y) for y in found] == ["float32[N, 3]"]
