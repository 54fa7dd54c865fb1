"""Strings in operators that are not about text. What only moves elements moves numbers instead; Cast and Equal are Python."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.text_steps import emit_view
from ort_lite_cpu.registry import STRING, find_native, operator


@operator("Flatten", "Reshape", "Squeeze", "Unsqueeze", types=STRING, python=True)
def reshape(op: NodeLowering) -> None:
    """Another shape of the same array, where at most one dimension is open and the others say what it is; else as `move`.

    Spec: ONNX Reshape-21, Flatten-21, Squeeze-21, Unsqueeze-21.
    """
    shape = op.info().shape
    opens = [dim for dim in shape or () if not isinstance(dim, int)]
    wanted = op.constant(1) if op.node.op_type == "Reshape" else np.array([-1])
    inferred = wanted is not None and bool((wanted == -1).any())
    if shape is None or 0 in shape or len(opens) > 1 or (opens and not inferred):
        move(op)
        return
    emit_view(op, tuple(dim if isinstance(dim, int) else -1 for dim in shape))


@operator(
    "CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND",
    "GridSample", "OneHot", "Pad", "Resize", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Slice",
    "SpaceToDepth", "Split", "TensorScatter", "Tile", "Transpose", "Trilu", "Upsample", "Where",
    types=STRING, python=True,
)  # fmt: skip
@operator("ArrayFeatureExtractor", domain="ai.onnx.ml", types=STRING, python=True)
@operator("ExpandDims", "GatherND", domain="com.microsoft", types=STRING, python=True)
def move(op: NodeLowering) -> None:
    """The node's own kernel moves positions of strings; two steps number all strings of the inputs and pick those that came out.

    Position 0 is the empty string, so that what a kernel fills with zeros (Pad, Trilu) is empty.
    """
    lowering, node = op.lowering, op.node
    native = find_native(node)
    if native is None:
        raise op.reject("no kernel moves strings for it")
    if op.attr("reduction", "none") != "none":
        raise op.reject(f"reduction {op.attr('reduction')} over strings")
    if node.op_type in _MODES and op.attr("mode", _MODES[node.op_type]) != "nearest":
        raise op.reject("there is nothing between two strings; mode should be nearest")
    if op.attr("extrapolation_value", 0.0) != 0.0:
        raise op.reject("a number stands for no string; extrapolation_value should be 0, which gives empty ones")
    values = [value for value in dict.fromkeys(node.inputs) if value is not None and lowering.tensor(value).dtype == "string"]
    strings = {value: lowering.tensor(value) for value in values}
    infos = {value: lowering.inference.of(value) for value in values}
    numbers = lowering.step(node, _positions, list(strings.values()), [_as_numbers(info) for info in infos.values()])
    count = len(node.outputs)
    for value, tensor in zip(values, numbers, strict=True):
        assert tensor is not None
        lowering.tensors[value] = tensor
        lowering.inference.infos[value] = _as_numbers(infos[value])
    try:
        native.lower(NodeLowering(lowering, node, [_as_numbers(op.info(k)) for k in range(count)]))
    finally:
        lowering.tensors.update(strings)
        lowering.inference.infos.update(infos)

    def pick(*arrays: Array | None) -> list[Array | None]:
        pool = np.concatenate([np.array([""], object), *(texts.reshape(-1) for texts in arrays[count:] if texts is not None)])
        return [None if positions is None else np.asarray(pool[positions], object) for positions in arrays[:count]]

    moved = [None if value is None else lowering.tensors[value] for value in node.outputs]
    op.python(pick, [*moved, *strings.values()])


_MODES = {"GridSample": "linear", "Resize": "nearest", "Upsample": "nearest"}
"""Operators that may interpolate, with the mode that they have by default."""


def _as_numbers(info: Info) -> Info:
    return Info(TensorType("int64", info.type.shape)) if isinstance(info.type, TensorType) else info


def _positions(*arrays: Array) -> list[Array]:
    """The place of each string among all of them, from 1 on."""
    ends = np.cumsum([1, *(array.size for array in arrays)])
    pairs = zip(ends, arrays, strict=False)
    return [np.arange(start, start + array.size, dtype=np.int64).reshape(array.shape) for start, array in pairs]


@operator("Col2Im", since=18, types=STRING, python=True)
def col2im(op: NodeLowering) -> None:
    """The sum of strings is one behind the other, in the order of their places in a block. Spec: ONNX Col2Im-18."""
    image, block = op.numbers(1), op.numbers(2)
    rank = len(image)
    strides, dilations = op.attr("strides", [1] * rank), op.attr("dilations", [1] * rank)
    pads = op.attr("pads", [0] * 2 * rank)
    padded = [image[k] + pads[k] + pads[rank + k] for k in range(rank)]
    counts = [(padded[k] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(rank)]
    kept: tuple[Any, ...] = (..., *(slice(pads[k], pads[k] + image[k]) for k in range(rank)))

    def step(x: Array, *sizes: Array) -> list[Array]:
        columns = x.reshape(x.shape[0], -1, *block, *counts)
        y = np.full((*columns.shape[:2], *padded), "", object)
        for at in np.ndindex(*block):
            places: tuple[Any, ...] = (
                ...,
                *(slice(i * d, i * d + n * s, s) for i, d, n, s in zip(at, dilations, counts, strides, strict=True)),
            )
            y[places] += columns[(slice(None), slice(None), *at)]
        return [np.ascontiguousarray(y[kept])]

    op.python(step)


@operator("NonZero", since=9, types=STRING, python=True)
def non_zero(op: NodeLowering) -> None:
    """Where a string is not empty. Spec: ONNX NonZero-13."""
    op.python(lambda x: [np.array(np.nonzero(np.atleast_1d(x)), np.int64)])


@operator("Unique", since=11, types=STRING, python=True)
@operator("Unique", domain="com.microsoft", types=STRING, python=True)
def unique(op: NodeLowering) -> None:
    """By their numbers in alphabetical order, since slices of objects cannot be compared. Spec: ONNX Unique-11."""
    older = op.node.domain != ""
    axis, in_order = op.attr("axis"), older or not op.attr("sorted", 1)

    def step(x: Array) -> list[Array]:
        values, codes = np.unique(x, return_inverse=True)
        found, first, inverse, counts = np.unique(codes.reshape(x.shape), True, True, True, axis=axis)
        inverse = inverse.reshape(-1)
        if in_order:
            order = np.argsort(first, kind="stable")
            rank = np.empty_like(order)
            rank[order] = np.arange(order.size)
            found, first, counts = np.take(found, order, axis or 0), first[order], counts[order]
            inverse = rank[inverse]
        told = (inverse, counts) if older else (first, inverse, counts)
        return [values[found], *(a.astype(np.int64) for a in told)]

    op.python(step)


@operator("Equal", since=19, types=STRING, python=True)
def equal(op: NodeLowering) -> None:
    """Spec: ONNX Equal-19."""
    op.python(lambda a, b: [np.asarray(a == b, bool)])


@operator("Cast", "CastLike", types=STRING, python=True)
def cast(op: NodeLowering) -> None:
    """To text, and from text as Python reads it: "1e3", "INF", "NaN" are numbers. Spec: ONNX Cast-13."""
    target = op.info().dtype
    assert target is not None
    source = op.raw(0).dtype
    if source == target:
        op.pass_on(op.raw(0))
    elif target == "string":
        op.python(lambda x, *like: [_written(x)])
    else:
        op.python(lambda x, *like: [_read(x, target)])


def _written(x: Array) -> Array:
    """Numbers as text, floats with up to 8 digits, as onnxruntime writes them."""
    form = str if x.dtype.kind in "biu" else "{:.8g}".format
    texts = np.empty(x.size, object)
    for k, element in enumerate(x.reshape(-1).tolist()):
        text = form(element)
        texts[k] = _WORDS.get(text, text)
    return texts.reshape(x.shape)


_WORDS = {"nan": "NaN", "inf": "INF", "-inf": "-INF", "True": "1", "False": "0"}


def _read(x: Array, target: str) -> Array:
    """Texts as numbers; ValueError names the text that is none."""
    dtype = to_numpy(target)
    if dtype.kind in "iu" and dtype.isbuiltin:
        return np.array([_integer(text) for text in x.reshape(-1)], dtype).reshape(x.shape)
    if dtype.kind == "b":
        return np.array([float(text) != 0 for text in x.reshape(-1)], bool).reshape(x.shape)
    wide = np.array([float(text) for text in x.reshape(-1)], np.float64).reshape(x.shape)
    return wide.astype(dtype)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))  # "1e3", "2.0"
