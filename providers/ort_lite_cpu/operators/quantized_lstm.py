"""DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are 8-bit, and whose activations are quantised as they come."""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.op import Op
from ort_lite_cpu.operators.matmul import Product, emit_packed
from ort_lite_cpu.operators.quantization import dequantized, emit_dynamic, quantized
from ort_lite_cpu.operators.recurrent import LSTM_ACTIVATIONS, Layer, emit_lstm
from ort_lite_cpu.registry import operator
from ort_lite_cpu.tensor import Tensor

W, R, W_SCALE, W_ZERO, R_SCALE, R_ZERO = 1, 2, 8, 9, 10, 11


class QuantizedLayer(Layer):
    """A layer whose inputs are what their quantisation holds of them, with weights (directions, inputs, gates * size)."""

    def __init__(self, op: Op) -> None:
        super().__init__(op, 4, LSTM_ACTIVATIONS)
        scale, zero = emit_dynamic(op, self.x)
        held = quantized(self.x, scale, zero, "uint8").tensor("uint8")
        self.x = op.lowering.stored(dequantized(held, scale, zero).tensor())

    def product(self, direction: int) -> Tensor:
        """x @ W[direction], (steps * batch, gates * size)."""
        rows, columns = self.steps * self.batch, self.gates * self.size
        w = self._weights(W, W_SCALE, W_ZERO)[direction]
        out = self.op.temporary("float32", (rows, columns))
        emit_packed(self.op, Product(rows, columns, w.shape[0]), self.x, w, source=w, y=out)
        return out

    def recurrence(self, direction: int) -> Tensor:
        """R[direction], (size, gates * size)."""
        return self.op.array(self._weights(R, R_SCALE, R_ZERO)[direction])

    def _weights(self, index: int, scale: int, zero: int) -> Array:
        """Dequantised; scales and zero points are one or one a column, for each direction."""
        arrays = [self.op.constant(k) for k in (index, scale, zero)]
        weights, scales, zeros = arrays
        if weights is None or scales is None or zeros is None:
            raise self.op.reject("takes constant weights, scales and zero points")
        columns = (weights.shape[0], 1, -1)
        return (weights.astype(np.int32) - zeros.astype(np.int32).reshape(columns)).astype(np.float32) * scales.reshape(columns)


@operator("DynamicQuantizeLSTM", domain="com.microsoft", types=frozenset({"float32"}))
def dynamic_quantize_lstm(op: Op) -> None:
    """Computed in float32, with the weights dequantised while lowering and the activations rounded as their quantisation would.

    The products are those of the integers up to float32's own rounding. The hidden state is quantised row by row of the batch.
    Spec: onnxruntime DynamicQuantizeLSTM-1.
    """
    emit_lstm(op, QuantizedLayer(op), dynamic=True)
