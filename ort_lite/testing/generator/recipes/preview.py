"""FlexAttention of ai.onnx.preview, whose bodies may modify scores and probabilities."""

from typing import Any

from ort_lite.dtypes import to_onnx
from ort_lite.graph.types import TensorType
from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draft import Draft
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe

_PRECISIONS = ("float32", "float16", "bfloat16", "float64")
_BFLOAT16 = 14
"""The first opset in which arithmetic has bfloat16."""


@recipe("FlexAttention", domain="ai.onnx.preview")
def flex_attention(draw: Draw) -> NodeProposal:
    """Draw queries that share heads of keys and values. Bodies see float32 unless another precision is requested or computed."""
    kind = draw.kind(0)
    batch, shared, rows, length, size, width = (draw.integer(1, most) for most in (2, 2, 4, 5, 5, 5))
    heads = shared * draw.integer(1, 2)
    operands = [
        draw.tensor(0, (batch, heads, rows, size)),
        draw.tensor(1, (batch, shared, length, size)),
        draw.tensor(2, (batch, shared, length, width)),
    ]
    precision = draw.choice((None, None, "float32", *_PRECISIONS))
    scores = TensorType(precision or ("float64" if kind == "float64" else "float32"), (batch, heads, rows, length))
    bodies = scores.dtype != "bfloat16" or draw.draft.opsets[""] >= _BFLOAT16
    return call(
        operands,
        types=[TensorType(kind, (batch, heads, rows, width))],
        scale=draw.maybe(draw.choice((0.25, 0.5, 1.0))),
        softmax_precision=None if precision is None else to_onnx(precision),
        score_mod=_body(draw, scores, ("Tanh", "Mul", "Add")) if bodies and draw.chance(0.4) else None,
        prob_mod=_body(draw, scores, ("Mul", "Sqrt")) if bodies and draw.chance(0.3) else None,
    )


def _body(draw: Draw, scores: TensorType, operators: tuple[str, ...]) -> Any:
    """Return a body with one node that maps scores to scores."""
    body = Draft(draw.draft.opsets, draw.rng, draw.draft.rules, draw.draft)
    x = body.formal(scores)
    op_type = draw.choice(operators)
    shape: Shape = ()
    factor = [body.constant(between(0.5, 2)(draw.rng, shape, scores.dtype)).name] if op_type in ("Mul", "Add") else []
    [y] = body.append(op_type, [x.name, *factor])
    body.outputs = [y.name]
    return body
