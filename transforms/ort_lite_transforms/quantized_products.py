"""Products of dequantised bytes are computed in integers.

Sums of products of bytes are exact. Where a QuantizeLinear is the only reader, Conv, MatMul and Gemm become QLinearConv,
QLinearMatMul and com.microsoft's QGemm, which round the sum times one float32, scale of a * scale of b / scale of the result, half to
even: what onnxruntime computes of these nodes. All others become ConvInteger or MatMulInteger, whose sums are scaled in float32.
"""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy, to_onnx
from ort_lite.graph import Node, Value
from ort_lite.memory.recipes import derive
from ort_lite.transform import Done, Rewriter, Skip, op, rule
from ort_lite_transforms.quantized_operands import Factors, Quantized, factors, find_quantized_input, find_quantized_output

_NAMES = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul", "Gemm": "QGemm"}


@rule(
    op(_NAMES, op("DequantizeLinear"), op("DequantizeLinear"), name="root"),
    op(
        _NAMES,
        op("DequantizeLinear", domain="com.microsoft"),
        op("DequantizeLinear", domain="com.microsoft"),
        name="root",
    ),
    level="basic",
    counterparts=("QDQSelectorActionTransformer",),
)
def multiply_integers(rewriter: Rewriter, root: Node) -> Done | Skip:
    """Write an integer product in the form that fits what reads it. Of a Gemm's `beta`, only 1 is an integer's."""
    found = factors(rewriter, root)
    if isinstance(found, str):
        return Skip(found)
    made = _Product(rewriter, root, found)
    reader, bias = made.reader(), made.bias()
    if reader is not None and (bias is None or bias.dtype == "int32"):
        quantize, result = reader
        return rewriter.replace(quantize, made.emit_integers(result, bias))
    return rewriter.replace(root, made.emit_float(bias))


class _Product:
    """A node between its operands, which are integers, and what stands in its place."""

    def __init__(self, rewriter: Rewriter, node: Node, operands: Factors) -> None:
        self.rewriter, self.node, self.a, self.b = rewriter, node, operands.a, operands.b
        alpha = np.float32(node.attr("alpha", 1.0) if node.op_type == "Gemm" else 1.0)
        self.steps: Array = np.asarray(alpha * self.a.steps.reshape(()) * self.b.steps, np.float32)
        """The numbers that the integer sums count, one, or one a column."""

    def reader(self) -> tuple[Node, Quantized] | None:
        """Return the QuantizeLinear that alone reads the product, and the bytes that it makes."""
        value = self.node.output
        if len(value.uses) != 1 or value.is_graph_output():
            return None
        ((node, index),) = value.uses
        if node.op_type != "QuantizeLinear" or index or node.graph is not self.node.graph:
            return None
        found = find_quantized_output(self.rewriter, node)
        return None if isinstance(found, str) or found.axis is not None else (node, found)

    def bias(self) -> Value | None:
        """Return the bias in int32 if it has the scale of the sums, else in float32."""
        value = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        if value is None:
            return None
        found = find_quantized_input(self.rewriter, value, self.node.graph, ("int32",))
        if isinstance(found, str) or (array := self.rewriter.array(found.x)) is None:
            return value
        whole = self.node.attr("beta", 1.0) == 1.0 and not found.points.any() and self._counts(found, array.shape)
        if whole:
            return found.x
        around = [1] * array.ndim
        if found.axis is not None:
            around[found.axis] = -1
        centred = array.astype(np.float64) - (found.points.reshape(around) if array.ndim else found.points.item())
        floats = centred * (found.steps.reshape(around) if array.ndim else found.steps.item())
        return self.rewriter.constant(floats.astype(np.float32), found.x.name)

    def _counts(self, bias: Quantized, shape: tuple[int, ...]) -> bool:
        """Return True if the scale of the bias is that of the sums, up to the rounding of their product."""
        if bias.axis not in (None, len(shape) - 1):
            return False
        return bool(np.allclose(bias.steps.reshape(-1), self.steps.reshape(-1), rtol=1e-6, atol=0))

    def emit_integers(self, result: Quantized, bias: Value | None) -> Value:
        """Rounded to bytes."""
        kind, a, b = self.node.op_type, self.a, self.b
        left = [a.x, a.scale, self._zero(a), b.x, b.scale, self._zero(b)]
        right = [result.scale, self._zero(result)]
        if kind == "Gemm":
            return self._op("QGemm", *left, bias, *right, domain="com.microsoft", **self._of_gemm())
        return self._op(_NAMES[kind], *left, *right, *([] if bias is None else [bias]), **self._of_conv())

    def emit_float(self, bias: Value | None) -> Value:
        """Return the scaled product in float32."""
        zeros = self._zero(self.a), self._zero(self.b)
        around: tuple[int, ...] = (-1,)
        if self.node.op_type == "Conv":
            around = (-1, *(1,) * (len(self.node.output.shape or ()) - 2))
            y = self._op("ConvInteger", self.a.x, self.b.x, *zeros, **self._of_conv())
        else:
            flips = self._of_gemm()
            a, b = (self._turn(side.x, flips[key]) for side, key in ((self.a, "transA"), (self.b, "transB")))
            y = self._op("MatMulInteger", a, b, *zeros)
        if bias is not None and bias.dtype == "int32":
            y = self._op("Add", y, self._term(bias, around))
        steps = self.steps.reshape(around if self.steps.size != 1 else ())
        y = self._op("Mul", self._op("Cast", y, to=to_onnx("float32")), self.rewriter.constant(steps, "scale"))
        return self._op("Add", y, self._term(bias, around)) if bias is not None and bias.dtype != "int32" else y

    def _term(self, bias: Value, around: tuple[int, ...]) -> Value:
        """The bias as it is added to the result."""
        beta = self.node.attr("beta", 1.0) if self.node.op_type == "Gemm" else 1.0
        if beta != 1.0:
            factor = self.rewriter.constant(np.asarray(beta, np.float32), "beta")
            bias = self._op("Mul", bias, factor)
        if len(around) == 1:
            return bias
        array = self.rewriter.array(bias)
        if array is None:
            return self._op("Reshape", bias, self.rewriter.constant(np.array(around, np.int64), "around"))
        return self.rewriter.constant(array.reshape(around), bias.name)

    def _of_conv(self) -> dict[str, Any]:
        names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
        return {name: self.node.attr(name) for name in names if self.node.op_type == "Conv" and name in self.node.attributes}

    def _of_gemm(self) -> dict[str, Any]:
        if self.node.op_type != "Gemm":
            return {"transA": 0, "transB": 0}
        return {"alpha": float(self.node.attr("alpha", 1.0))} | {key: self.node.attr(key, 0) for key in ("transA", "transB")}

    def _turn(self, x: Value, turned: bool) -> Value:
        if not turned:
            return x
        array = self.rewriter.array(x)
        if array is None:
            return self._op("Transpose", x, perm=(1, 0))
        return self.rewriter.constant(derive(_transpose, array), x.name)

    def _zero(self, side: Quantized) -> Value:
        if side.zero is not None:
            return side.zero
        assert side.x.dtype is not None
        return self.rewriter.constant(np.zeros((), to_numpy(side.x.dtype)), "zero")

    def _op(self, op_type: str, *inputs: Value | None, domain: str = "", **attributes: Any) -> Value:
        version = None if domain else self.node.version
        return self.rewriter.op(op_type, *inputs, domain=domain, version=version, **attributes)


def _transpose(array: Array) -> Array:
    return np.ascontiguousarray(array.T)
