"""FlexAttention: attention with graphs of the model's own between the product, the softmax and the second product."""

import math
from typing import Any

from ort_lite.dtypes import DType, from_onnx
from ort_lite.graph import Graph, TensorType
from ort_lite.inference import Info
from ort_lite.shapes import floordiv, product
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.attention import heads_of
from ort_lite_cpu.operators.attention_kernels import AttentionOptions, Mask, agree, emit_attention
from ort_lite_cpu.operators.control_flow import Captured, captures_of
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm
from ort_lite_cpu.operators.matrices import batches
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.operators.softmax import emit_softmax
from ort_lite_cpu.operators.targets import round_targets, target_of
from ort_lite_cpu.registry import REAL, operator


@operator("FlexAttention", domain="ai.onnx.preview", types=REAL)
def flex_attention(op: NodeLowering) -> None:
    """Emit attention of Q (B, Hq, S, D) to K and V with a number of heads that divides Hq. The graphs run between two segments.

    Spec: ONNX preview FlexAttention-1.
    """
    size = op.dim(0, 3)
    scale = op.attr("scale")
    scale = 1 / math.sqrt(max(size, 1)) if scale is None else float(scale)
    seen = op.raw(0).dtype
    precision = from_onnx(op.attr("softmax_precision")) if op.attr("softmax_precision") else seen
    dtype = "float64" if "float64" in (seen, precision) else "float32"
    q, k, v = (op.cast(op.input(index), dtype) for index in range(3))
    y = target_of(op, 0, dtype)
    heads = [heads_of(op, x, 0) for x in (q, k, v)]
    score_mod, prob_mod = op.attr("score_mod"), op.attr("prob_mod")
    if score_mod is None and prob_mod is None:
        emit_attention(op, heads[0], heads[1], heads[2], heads_of(op, y, 0), Mask(), AttentionOptions(scale))
    else:
        agree(op, heads[0], heads[1], heads[2])
        scores = op.temporary(dtype, (*q.shape[:3], k.shape[2]))
        _batch(op, Product(q.shape[2], k.shape[2], size, scale, transposed=True), q, k, scores)
        scores = _apply_graph(op, score_mod, scores, precision)
        probabilities = op.temporary(dtype, scores.shape)
        rows, n = product(scores.shape[:3]), scores.shape[3]
        emit_softmax(op, scores, probabilities, rows, n)
        probabilities = _apply_graph(op, prob_mod, probabilities, precision)
        _batch(op, Product(q.shape[2], v.shape[3], k.shape[2]), probabilities, v, y)
    round_targets(op, {0: y})


def _batch(op: NodeLowering, spec: Product, a: Tensor, b: Tensor, y: Tensor) -> None:
    """Emit y = a @ b for a (B, heads, m, k) and a b with fewer heads."""
    batch, heads, kv_heads = a.shape[0], a.shape[1], b.shape[1]
    group = floordiv(heads, kv_heads)
    one, other = spec.m * spec.k, spec.k * spec.n
    loops = batches(batch, kv_heads, group, heads * one, group * one, one, kv_heads * other, other, 0)
    emit_dynamic_gemm(op, spec, a, b, y, loops, batch * heads)


def _apply_graph(op: NodeLowering, graph: Graph | None, x: Tensor, precision: DType) -> Tensor:
    """Return x after a graph that maps it to a tensor of its shape, in elements of type `precision`."""
    if graph is None:
        return x
    captures = captures_of(op, graph)
    body = Captured(op, graph, captures)

    def step(given: Any, *captured: Any) -> list[Any]:
        return body([given], captured)

    given = op.cast(x, precision)
    inputs = [given, *(op.values.tensor(value) for value in captures)]
    [made] = op.builder.step(op.node, step, inputs, [Info(TensorType(precision, x.shape))], python=False, shared=(0,))
    assert made is not None
    return op.cast(made, x.dtype)
