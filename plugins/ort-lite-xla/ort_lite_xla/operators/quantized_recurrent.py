"""DynamicQuantizeLSTM of com.microsoft: an LSTM with 8-bit weights, whose operands are quantized in each step."""

import jax.numpy as jnp
import numpy as np

from ort_lite_xla.operators.activations import MICROSOFT
from ort_lite_xla.operators.integers import multiply
from ort_lite_xla.operators.quantization import dynamic_quantize_linear
from ort_lite_xla.operators.recurrent import Cell, State, lstm_update, plain_activations, recurrent
from ort_lite_xla.registry import BYTES, Array, XlaOp, lowering

SINGLE = frozenset({"float32"})
OPERANDS = (SINGLE, BYTES, BYTES, SINGLE, frozenset({"int32"}), SINGLE, SINGLE, SINGLE, SINGLE, BYTES, SINGLE, BYTES)


@lowering("DynamicQuantizeLSTM", domain=MICROSOFT, types=OPERANDS, check=plain_activations)
def dynamic_quantize_lstm(
    op: XlaOp,
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    lengths: Array,
    h: Array,
    c: Array,
    peepholes: Array,
    w_scale: Array,
    w_zero: Array,
    r_scale: Array,
    r_zero: Array,
) -> tuple[Array, ...]:
    """Quantize x as a whole, and the hidden states of the batch in each step. Spec: onnxruntime DynamicQuantizeLSTM-1.

    A step quantizes all sequences that took the last one, or all if Y is left out. onnxruntime does so in each of its threads.
    """
    hidden, counts = r.shape[1], None
    if lengths is not None:
        x = jnp.where(jnp.arange(x.shape[0])[:, None, None] < jnp.max(lengths), x, 0)
        counts = jnp.zeros((w.shape[0], x.shape[1], 1), np.int32) if op.wants(0) else None
    levels, scale, zero = dynamic_quantize_linear(op, x)

    def parts(_: Array, way: int) -> Array:
        return multiply(levels, w[way], zero, w_zero[way]).astype(np.float32) * (scale * w_scale[way])

    def make(way: int) -> Cell:
        update = lstm_update(op, way, peepholes)
        bias = 0 if b is None else jnp.sum(b[way].reshape(2, -1), 0)

        def cell(part: Array, state: State) -> State:
            before, memory, *taken = state
            rows = jnp.where(taken[0] == jnp.max(taken[0]), before, 0) if taken else before
            levels, scale, zero = dynamic_quantize_linear(op, rows)
            sums = multiply(levels, r[way], zero, r_zero[way]).astype(np.float32) * (scale * r_scale[way])
            return *update(part + sums + bias, memory), *(count + 1 for count in taken)

        return cell

    states = [h, c] if counts is None else [h, c, counts]
    return recurrent(op, x, lengths, hidden, states, make, parts)[:3]
