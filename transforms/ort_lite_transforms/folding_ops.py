"""Operators in NumPy, for constant folding: `FOLDERS[op_type](node, *arrays)` gives the outputs or raises NotFoldable.

Only what exporters compute on constants is here, and only where NumPy gives what the specification says. Arrays that are left
out are None. Results may be views of the operands.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_onnx, to_numpy
from ort_lite.graph import Node


class NotFoldable(Exception):
    """Says why a node cannot be folded; it stays in the graph."""


Folder = Callable[..., Array | Sequence[Array]]

MOST = 1 << 24
"""Elements that Range, Tile and Pad make at most: their sizes are contents, which inference does not always know."""


def _check_count(count: float) -> None:
    if count > MOST:
        raise NotFoldable(f"{count:.0f} elements")


# Elementwise: what NumPy does under the same name, for the element type that came in.


def _binary(function: Callable[[Any, Any], Any]) -> Folder:
    def fold(node: Node, a: Array, b: Array) -> Array:
        if node.version < 7 and node.attr("broadcast", 0):
            raise NotFoldable("broadcasting as before opset 7")
        return np.asarray(function(a, b))

    return fold


def _unary(function: Callable[[Any], Any]) -> Folder:
    return lambda node, x: np.asarray(function(x))


def _variadic(function: Callable[[Any, Any], Any]) -> Folder:
    def fold(node: Node, *arrays: Array) -> Array:
        result = arrays[0]
        for array in arrays[1:]:
            result = np.asarray(function(result, array))
        return result

    return fold


def _divide(a: Array, b: Array) -> Array:
    """Integers truncate towards zero. Spec: ONNX Div-14."""
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    if not np.all(b):
        raise NotFoldable("it divides by zero")
    quotient = np.floor_divide(a, b)
    return np.asarray(quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


def _power(a: Array, b: Array) -> Array:
    """Compute the power in the type of the base. Spec: ONNX Pow-15."""
    if a.dtype.kind in "iu" and (b.dtype.kind not in "iu" or np.any(b < 0)):
        raise NotFoldable("an integer to a power that is no natural number")
    return np.asarray(np.power(a, b)).astype(a.dtype)


def _mod(node: Node, a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and not np.all(b):
        raise NotFoldable("it divides by zero")
    return np.asarray(np.fmod(a, b) if node.attr("fmod", 0) else np.mod(a, b))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def _cast(node: Node, x: Array) -> Array:
    """Between NumPy's own types and bfloat16; float8 saturates, strings have their own rules. Spec: ONNX Cast-25."""
    target = to_numpy(from_onnx(node.attr("to")))
    for dtype in (x.dtype, target):
        if dtype.kind not in "fiub" and dtype.name != "bfloat16":
            raise NotFoldable(f"{x.dtype} to {target}")
    return x.astype(target)


def _dequantize(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """(x - zero) * scale for a scale per tensor or per axis. Spec: ONNX DequantizeLinear-25."""
    if node.attr("block_size", 0) or scale.ndim > 1 or scale.dtype != np.float32 or x.dtype.kind not in "iu":
        raise NotFoldable(f"{x.dtype} with a scale of {scale.dtype}{list(scale.shape)}")
    centred = x.astype(np.int32)
    if zero is not None:
        centred -= _along(node, x, zero).astype(np.int32)
    return centred.astype(np.float32) * _along(node, x, scale)


def _quantize(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """x / scale rounded half to even, plus zero, saturated to bytes. Spec: ONNX QuantizeLinear-25."""
    dtype = node.output.dtype
    if (
        node.attr("block_size", 0)
        or scale.ndim > 1
        or {x.dtype, scale.dtype} != {np.dtype(np.float32)}
        or dtype not in ("int8", "uint8")
    ):
        raise NotFoldable(f"{x.dtype} to {dtype} with a scale of {scale.dtype}{list(scale.shape)}")
    limits = np.iinfo(to_numpy(dtype))
    levels = np.rint(x / _along(node, x, scale)) + (0 if zero is None else _along(node, x, zero).astype(np.float32))
    return np.clip(levels, limits.min, limits.max).astype(limits.dtype)


def _along(node: Node, x: Array, parameter: Array) -> Array:
    """A scale or zero point as it broadcasts over x: one, or one for each index of the node's axis."""
    around = [1] * x.ndim
    if parameter.size > 1:
        around[node.attr("axis", 1)] = parameter.size
    return parameter.reshape(around if parameter.size > 1 else ())


# Shapes and movement

_VIEWS = frozenset({"ConstantOfShape", "Expand", "Identity", "Squeeze", "Unsqueeze", "Slice", "Split", "Transpose"})


def is_view(op_type: str, given: Sequence[Array]) -> bool:
    """True if the results of an operator share the memory of its operands."""
    if op_type in ("Reshape", "Flatten"):
        return bool(given) and (bool(given[0].flags.c_contiguous) or is_filled(given[0]))
    return op_type in _VIEWS


def is_filled(x: Array) -> bool:
    """True for a view that repeats one element."""
    return x.size > 0 and not any(x.strides)


def _reshape_view(x: Array, shape: Sequence[int]) -> Array:
    """x.reshape(shape), without a copy of a view that repeats one element."""
    if not is_filled(x):
        return x.reshape(shape)
    known = math.prod(size for size in shape if size != -1)
    sizes = [x.size // known if size == -1 and known else size for size in shape]
    if math.prod(sizes) != x.size or list(shape).count(-1) > 1 or min(sizes, default=0) < 0:
        raise ValueError(f"cannot reshape array of size {x.size} into shape {tuple(shape)}")
    return np.broadcast_to(x[(0,) * x.ndim], sizes)


def axes_of(node: Node, given: Array | None) -> list[int] | None:
    """Axes from the input that newer versions have or the attribute of older ones; None where both are left out."""
    axes = node.attr("axes") if given is None else given.ravel().tolist()
    return None if axes is None else list(axes)


def _reshape(node: Node, x: Array, shape: Array | None = None) -> Array:
    wanted = node.attr("shape") if shape is None else shape.tolist()
    if not node.attr("allowzero", 0):
        wanted = [x.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return _reshape_view(x, wanted)


def _flatten(node: Node, x: Array) -> Array:
    axis = node.attr("axis", 1)
    rows = int(np.prod(x.shape[:axis] if axis else ()))
    return _reshape_view(x, (rows, x.size // rows if rows else 0))


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    chosen = axes_of(node, axes)
    return np.squeeze(x, None if chosen is None else tuple(chosen))


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    return np.asarray(np.expand_dims(x, tuple(axes_of(node, axes) or ())))


def _transpose(node: Node, x: Array) -> Array:
    return np.transpose(x, node.attr("perm") or None)


def _concat(node: Node, *arrays: Array) -> Array:
    return np.concatenate(arrays, node.attr("axis", 1))


def _gather(node: Node, x: Array, index: Array) -> Array:
    return np.take(x, index, node.attr("axis", 0))


def _slice(
    node: Node,
    x: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    """Python's slices, but for the end of a backward one, where -rank - 1 and less mean the beginning. Spec: ONNX Slice-13."""
    first = node.attr("starts") if starts is None else starts.tolist()
    last = node.attr("ends") if ends is None else ends.tolist()
    chosen = axes_of(node, axes) or list(range(len(first)))
    strides = [1] * len(first) if steps is None else steps.tolist()
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, first, last, strides, strict=True):
        index[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(index)]


def _split(node: Node, x: Array, sizes: Array | None = None) -> list[Array]:
    axis = node.attr("axis", 0)
    given = node.attr("split") if sizes is None else sizes.tolist()
    if given is None:
        count = len(node.outputs)
        part = -(-x.shape[axis] // count)
        given = [part] * (count - 1)
    return np.split(x, np.cumsum(given)[: len(node.outputs) - 1], axis)


def _expand(node: Node, x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _tile(node: Node, x: Array, repeats: Array) -> Array:
    if node.version < 6:
        raise NotFoldable("Tile as before opset 6")
    _check_count(x.size * math.prod(repeats.tolist()))
    return np.tile(x, repeats.tolist())


def _constant_of_shape(node: Node, shape: Array) -> Array:
    """One element, seen through strides of 0: weights made this way take no memory."""
    value = node.attr("value")
    return np.broadcast_to(np.zeros(1, np.float32)[0] if value is None else value.reshape(()), tuple(shape.tolist()))


def _shape(node: Node, x: Array) -> Array:
    return np.array(x.shape[node.attr("start", 0) : node.attr("end")], np.int64)


def _range(node: Node, start: Array, limit: Array, delta: Array) -> Array:
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise NotFoldable("a step of 0")
    count = max(0, math.ceil((last - first) / step))
    _check_count(count)
    values: Array = np.arange(count) * step + first
    return values.astype(start.dtype)


def _pad(node: Node, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None) -> Array:
    if node.attr("mode", "constant") != "constant" or axes is not None:
        raise NotFoldable("only constants around all axes are padded here")
    around = node.attr("pads", node.attr("paddings")) if pads is None else pads.tolist()
    if min(around, default=0) < 0:
        raise NotFoldable("negative pads")
    half = len(around) // 2
    _check_count(math.prod(size + a + b for size, a, b in zip(x.shape, around[:half], around[half:], strict=True)))
    fill = node.attr("value", 0) if value is None else value.item()
    return np.pad(x, list(zip(around[:half], around[half:], strict=True)), constant_values=fill)


def _where(node: Node, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


def _cumsum(node: Node, x: Array, axis: Array) -> Array:
    if node.attr("exclusive", 0) or node.attr("reverse", 0):
        raise NotFoldable("exclusive or reverse")
    return np.cumsum(x, axis.item(), dtype=x.dtype)


def _trilu(node: Node, x: Array, k: Array | None = None) -> Array:
    offset = 0 if k is None else k.item()
    return np.triu(x, offset) if node.attr("upper", 1) else np.tril(x, offset)


def _nonzero(node: Node, x: Array) -> Array:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)


# Products and norms of floats, which encoders compute on tables of positions


def _check_floats(*arrays: Array | None) -> None:
    for array in arrays:
        if array is not None and array.dtype not in (np.float32, np.float64):
            raise NotFoldable(f"elements of {array.dtype}")


def _matmul(node: Node, a: Array, b: Array) -> Array:
    _check_floats(a, b)
    return np.asarray(np.matmul(a, b))


def _gemm(node: Node, a: Array, b: Array, c: Array | None = None) -> Array:
    """alpha * A @ B + beta * C. Spec: ONNX Gemm-13."""
    _check_floats(a, b, c)
    if node.version < 7:
        raise NotFoldable("broadcasting as before opset 7")
    product = (a.T if node.attr("transA", 0) else a) @ (b.T if node.attr("transB", 0) else b)
    scaled = product * product.dtype.type(node.attr("alpha", 1.0))
    return scaled if c is None else np.asarray(scaled + c * c.dtype.type(node.attr("beta", 1.0)))


def _layer_norm(node: Node, x: Array, scale: Array, bias: Array | None = None) -> Array:
    """Compute in float64, whatever the type. Spec: ONNX LayerNormalization-17."""
    _check_floats(x, scale, bias)
    if any(node.outputs[1:]):
        raise NotFoldable("its mean or deviation is wanted")
    axis = node.attr("axis", -1)
    axes = tuple(range(axis % x.ndim if x.ndim else 0, x.ndim))
    wide = x.astype(np.float64)
    wide -= wide.mean(axes, keepdims=True)
    wide /= np.sqrt((wide**2).mean(axes, keepdims=True) + node.attr("epsilon", 1e-5))
    normalised = (wide * scale).astype(x.dtype)
    return normalised if bias is None else np.asarray(normalised + bias)


def _reduce(function: Callable[..., Any]) -> Folder:
    def fold(node: Node, x: Array, axes: Array | None = None) -> Array:
        chosen = axes_of(node, axes)
        if not chosen and node.attr("noop_with_empty_axes", 0):
            raise NotFoldable("no axes")
        if x.size == 0:
            raise NotFoldable("there is nothing to reduce")  # of some operators NumPy would warn
        keep = bool(node.attr("keepdims", 1))
        return np.asarray(function(x, axis=tuple(chosen) if chosen else None, keepdims=keep)).astype(x.dtype)

    return fold


FOLDERS: dict[str, Folder] = {
    "Add": _binary(np.add), "Sub": _binary(np.subtract), "Mul": _binary(np.multiply), "Div": _binary(_divide),
    "Pow": _binary(_power), "Mod": _mod,
    "And": _binary(np.logical_and), "Or": _binary(np.logical_or), "Xor": _binary(np.logical_xor), "Not": _unary(np.logical_not),
    "Equal": _binary(np.equal), "Less": _binary(np.less), "Greater": _binary(np.greater),
    "LessOrEqual": _binary(np.less_equal), "GreaterOrEqual": _binary(np.greater_equal),
    "Min": _variadic(np.minimum), "Max": _variadic(np.maximum), "Sum": _variadic(np.add),
    "Neg": _unary(np.negative), "Abs": _unary(np.abs), "Sign": _unary(np.sign), "Sqrt": _unary(np.sqrt),
    "Reciprocal": _unary(lambda x: np.asarray(1 / x, x.dtype)), "Exp": _unary(np.exp), "Log": _unary(np.log),
    "Floor": _unary(np.floor), "Ceil": _unary(np.ceil), "Round": _unary(np.rint),
    "Sin": _unary(np.sin), "Cos": _unary(np.cos), "Tanh": _unary(np.tanh), "Sigmoid": _unary(_sigmoid),
    "Relu": _unary(lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "Cast": _cast, "DequantizeLinear": _dequantize, "QuantizeLinear": _quantize, "Where": _where,
    "Identity": lambda node, x: x, "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Transpose": _transpose, "Concat": _concat, "Split": _split, "Gather": _gather, "Slice": _slice, "Expand": _expand,
    "Tile": _tile, "Pad": _pad, "ConstantOfShape": _constant_of_shape, "Range": _range, "Trilu": _trilu,
    "Shape": _shape, "Size": lambda node, x: np.array(x.size, np.int64), "NonZero": _nonzero, "CumSum": _cumsum,
    "ReduceSum": _reduce(np.sum), "ReduceMean": _reduce(np.mean), "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(np.max), "ReduceMin": _reduce(np.min),
    "MatMul": _matmul, "Gemm": _gemm, "LayerNormalization": _layer_norm,
}  # fmt: skip
