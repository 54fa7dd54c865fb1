"""Strings in operators that are not about text. What only moves elements moves numbers instead; Cast and Equal are Python."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import count
from operator import eq
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators import numerals
from ort_lite_cpu.operators.copying import contiguous
from ort_lite_cpu.operators.splitting import join_texts, pairs
from ort_lite_cpu.operators.text_steps import emit_view
from ort_lite_cpu.registry import STRING, find_native, operator
from ort_lite_cpu.run.pace import CHEAP, Pace


@operator("Flatten", "Reshape", "Squeeze", "Unsqueeze", types=STRING, python=True)
def reshape(op: NodeLowering) -> None:
    """Reshape the same array, if at most one dimension is open and the others determine it; else as `move`.

    Spec: ONNX Reshape-21, Flatten-21, Squeeze-21, Unsqueeze-21.
    """
    shape = op.info().shape
    opens = [dim for dim in shape or () if not isinstance(dim, int)]
    wanted = op.constant(1) if op.node.op_type == "Reshape" else np.array([-1])
    inferred = wanted is not None and bool((wanted == -1).any())
    if shape is None or 0 in shape or len(opens) > 1 or (opens and not inferred):
        move(op)
        return
    dims = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
    emit_view(op, lambda x: x.reshape(dims))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml", types=STRING, python=True)
def array_feature_extractor(op: NodeLowering) -> None:
    """Take a column of known number from the same array; else as `move`. Spec: ONNX-ML ArrayFeatureExtractor-1."""
    index, shape = op.constant(1), op.raw(0).shape
    last = shape[-1] if len(shape) > 1 else 0
    if index is None or index.size != 1 or not isinstance(last, int) or not 0 <= index.item() < last:
        move(op)
        return
    column = index.item()
    emit_view(op, lambda x: x[..., column : column + 1])


@operator("ExpandDims", domain="com.microsoft", types=STRING, python=True)
def move(op: NodeLowering) -> None:
    """Move positions of strings by the node's own kernel; two steps number all strings of the inputs and pick the results.

    Position 0 is the empty string, so that what a kernel fills with zeros (Pad, Trilu) is empty.
    """
    values, node, pace = op.values, op.node, op.pace
    native = find_native(node)
    if native is None:
        raise op.reject("no kernel moves strings for it")
    if op.attr("reduction", "none") != "none":
        raise op.reject(f"reduction {op.attr('reduction')} over strings")
    if node.op_type in _MODES and op.attr("mode", _MODES[node.op_type]) != "nearest":
        raise op.reject("there is nothing between two strings; mode should be nearest")
    crops = op.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"  # nothing else extrapolates
    if crops and op.attr("extrapolation_value", 0.0) != 0.0:
        raise op.reject("a number stands for no string; extrapolation_value should be 0, which gives empty ones")
    texts = [value for value in dict.fromkeys(node.inputs) if value is not None and values.tensor(value).dtype == "string"]
    strings = {value: values.tensor(value) for value in texts}
    infos = {value: values.inference.of(value) for value in texts}
    numbers = values.builder.step(
        node, partial(_positions, pace), list(strings.values()), [_as_numbers(info) for info in infos.values()]
    )
    count = len(node.outputs)
    for value, tensor in zip(texts, numbers, strict=True):
        assert tensor is not None
        values.tensors[value] = tensor
        values.inference.infos[value] = _as_numbers(infos[value])
    try:
        native.lower(NodeLowering(values, node, [_as_numbers(op.info(k)) for k in range(count)]))
    finally:
        values.tensors.update(strings)
        values.inference.infos.update(infos)

    def pick(*arrays: Array | None) -> list[Array | None]:
        pool = _pool(pace, [array.reshape(-1) for array in arrays[count:] if array is not None])
        return [None if positions is None else pace.pick(pool, positions) for positions in arrays[:count]]

    moved = [None if value is None else values.tensors[value] for value in node.outputs]
    op.python(pick, [*moved, *strings.values()])


_MODES = {"GridSample": "linear", "Resize": "nearest", "Upsample": "nearest"}
"""Operators that may interpolate, with the mode that they have by default."""


def _as_numbers(info: Info) -> Info:
    return Info(TensorType("int64", info.type.shape)) if isinstance(info.type, TensorType) else info


def _positions(pace: Pace, *arrays: Array) -> list[Array]:
    """Return the place of each string among all of them, from 1 on."""
    pace.take(8 * sum(array.size for array in arrays))
    found, at = [], 1
    for array in arrays:
        y = np.empty(array.size, np.int64)
        for part in pace.slices(array.size, CHEAP):
            y[part] = np.arange(at, at + len(y[part]))
            at += len(y[part])
        found.append(y.reshape(array.shape))
    return found


def _pool(pace: Pace, sources: Sequence[Array]) -> Array:
    """Return the empty string, and all strings."""
    pool, at = pace.empty((1 + sum(texts.size for texts in sources),)), 1
    pool[0] = ""
    for texts in sources:
        for part in pace.slices(texts.size, CHEAP):
            piece = texts[part]
            pool[at : at + piece.size] = piece
            at += piece.size
    return pool


@operator("Col2Im", since=18, types=STRING, python=True)
def col2im(op: NodeLowering) -> None:
    """Join strings in the order of their places in a block. Spec: ONNX Col2Im-18."""
    image, block = op.numbers(1), op.numbers(2)
    rank = len(image)
    strides, dilations = op.attr("strides", [1] * rank), op.attr("dilations", [1] * rank)
    pads = op.attr("pads", [0] * 2 * rank)
    padded = [image[k] + pads[k] + pads[rank + k] for k in range(rank)]
    counts = [(padded[k] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(rank)]
    kept: tuple[Any, ...] = (..., *(slice(pads[k], pads[k] + image[k]) for k in range(rank)))
    pace, node = op.pace, op.node

    def step(x: Array, *sizes: Array) -> list[Array]:
        columns = x.reshape(x.shape[0], x.shape[1] // math.prod(block), *block, *counts)
        y = pace.empty((*columns.shape[:2], *padded))
        y.fill("")
        for at in np.ndindex(*block):
            places: tuple[Any, ...] = (
                ...,
                *(slice(i * d, i * d + n * s, s) for i, d, n, s in zip(at, dilations, counts, strides, strict=True)),
            )
            part = y[places]
            part[...] = join_texts(pace, part, columns[(slice(None), slice(None), *at)])
        return [contiguous(node, y[kept])]

    op.python(step)


@operator("NonZero", since=9, types=STRING, python=True)
def non_zero(op: NodeLowering) -> None:
    """Emit NonZero of strings: a string counts unless it is empty. Spec: ONNX NonZero-13."""
    pace = op.pace

    def step(x: Array) -> list[Array]:
        x = np.atleast_1d(x)
        kept = pace.map(lambda texts: list(map(bool, texts)), x, bool).reshape(-1)
        found = [part.start + np.flatnonzero(kept[part]) for part in pace.slices(x.size, CHEAP)]
        y, at = np.empty((x.ndim, sum(map(len, found))), np.int64), 0
        for places in found:
            pace.check()
            y[:, at : at + len(places)] = np.unravel_index(places, x.shape)
            at += len(places)
        return [y]

    op.python(step)


@operator("Unique", since=11, types=STRING, python=True)
@operator("Unique", domain="com.microsoft", types=STRING, python=True)
def unique(op: NodeLowering) -> None:
    """Emit Unique by the strings' alphabetical ranks, since slices of objects cannot be compared. Spec: ONNX Unique-11."""
    older, pace = op.node.domain != "", op.pace
    axis, in_order = op.attr("axis"), older or not op.attr("sorted", 1)

    def step(x: Array) -> list[Array]:
        values, codes = _number(pace, x)
        found, first, inverse, counts = pace.beside(_find_unique, codes, axis, in_order)
        told = (inverse, counts) if older else (first, inverse, counts)
        return [pace.pick(values, found), *(a.astype(np.int64) for a in told)]

    op.python(step)


def _find_unique(codes: Array, axis: int | None, in_order: bool) -> tuple[Array, Array, Array, Array]:
    """Return NumPy's answers for the codes: unique ones, first positions, inverse and counts; `in_order`: as they come first."""
    found, first, inverse, counts = np.unique(codes, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if in_order:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        found, first, counts = np.take(found, order, axis or 0), first[order], counts[order]
        inverse = rank[inverse]
    return found, first, inverse, counts


def _number(pace: Pace, x: Array) -> tuple[Array, Array]:
    """Return the different texts in alphabetical order, and the place of each element of x among them."""
    texts = pace.elements(x)
    places: dict[str, int] = {}
    for block in pace.texts(texts):
        places.update(dict.fromkeys(block, 0))
    values = pace.sort_blocks(pace.texts(list(places)))
    for part in pace.slices(len(values)):
        places.update(zip(values[part], count(part.start), strict=False))
    return pace.array(values, (len(values),)), pace.map(lambda block: list(map(places.__getitem__, block)), x, np.int64)


@operator("Equal", since=19, types=STRING, python=True)
def equal(op: NodeLowering) -> None:
    """Emit Equal of strings. Spec: ONNX Equal-19."""
    pace = op.pace

    def step(a: Array, b: Array) -> list[Array]:
        a, b = np.broadcast_arrays(a, b)
        y = np.empty(a.size, bool)
        for part, left, right in pairs(pace, a, b):
            y[part] = list(map(eq, left, right))
        return [y.reshape(a.shape)]

    op.python(step)


@operator("Cast", "CastLike", types=STRING, python=True)
def cast(op: NodeLowering) -> None:
    """Emit Cast to or from strings (see `numerals`). Spec: ONNX Cast-25."""
    target = op.info().dtype
    assert target is not None
    source, pace = op.raw(0).dtype, op.pace
    if source == target:
        op.pass_on(op.raw(0))
    elif target == "string":
        op.python(lambda x, *like: [_format_numbers(pace, x)])
    else:
        saturate = bool(op.attr("saturate", 1))
        op.python(lambda x, *like: [_read(pace, x, target, saturate)])


def _format_numbers(pace: Pace, x: Array) -> Array:
    """Return numbers as text, floats with up to 8 digits, as onnxruntime writes them."""
    form = str if x.dtype.kind in "biu" else "{:.8g}".format
    texts, flat = pace.empty((x.size,)), x.reshape(-1)
    for part in pace.slices(x.size):
        made = list(map(form, flat[part].tolist()))
        texts[part] = [_WORDS.get(text, text) for text in made]
        pace.take_texts(made)
    return texts.reshape(x.shape)


_WORDS = {"nan": "NaN", "inf": "INF", "-inf": "-INF", "True": "1", "False": "0"}


def _read(pace: Pace, x: Array, target: str, saturate: bool) -> Array:
    """Return texts as numbers. Raises ValueError, which names the text, for invalid ones and those beyond an integer's range."""
    dtype = to_numpy(target)
    if target == "bool":
        return pace.map(lambda texts: [number != 0 for number in numerals.reals(texts)], x, bool)
    if "int" not in target:
        wide = pace.map(numerals.reals, x, np.float64)
        with np.errstate(over="ignore"):
            return (_saturate(wide, dtype) if saturate and target.startswith("float8") else wide).astype(dtype)
    bits = int(target.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits - 1) if target.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def integers(texts: list[str]) -> list[int]:
        numbers = numerals.wholes(texts)
        if numbers and not low <= min(numbers) <= max(numbers) <= high:
            wrong = next(text for text, number in zip(texts, numbers, strict=True) if not low <= number <= high)
            raise ValueError(f"{wrong!r} is beyond {target}: expected a number from {low} to {high}")
        return numbers

    return pace.map(integers, x, dtype)


def _saturate(wide: Array, dtype: Any) -> Array:
    """Clamp to the type's largest number, as numeric casts do."""
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    most = float(finfo(dtype).max)
    return np.clip(wide, -most, most)
