"""Strings in operators that are not about text. What only moves elements moves numbers instead; Cast and Equal are Python."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.graph import TensorType, Value
from ort_lite.inference import Info
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import STRING, find_native, operator


@operator(
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "OneHot", "Pad", "Reshape",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
    "Trilu", "Unsqueeze", "Upsample", "Where", types=STRING, python=True,
)  # fmt: skip
@operator("ArrayFeatureExtractor", domain="ai.onnx.ml", types=STRING, python=True)
def move(op: Op) -> None:
    """The node's own kernel moves positions of strings; two steps number all strings of the inputs and pick those that came out.

    Position 0 is the empty string, so that what a kernel fills with zeros (Pad, Trilu) is empty.
    """
    lowering, node = op.lowering, op.node
    native = find_native(node)
    if native is None:
        raise op.reject("no kernel moves strings for it")
    values = [value for value in dict.fromkeys(node.inputs) if value is not None and lowering.tensor(value).dtype == "string"]
    strings = [lowering.tensor(value) for value in values]
    kept = {value: lowering.inference.of(value) for value in values}
    numbers = lowering.step(node, _positions, strings, [_numbers(info) for info in kept.values()])
    for value, tensor in zip(values, numbers, strict=True):
        assert tensor is not None
        lowering.tensors[value] = tensor
        lowering.inference.infos[value] = _numbers(kept[value])
    infos = [op.info(k) for k in range(len(node.outputs))]
    native.lower(Op(lowering, node, [_numbers(info) for info in infos]))
    for value, tensor in zip(values, strings, strict=True):
        lowering.tensors[value] = tensor
        lowering.inference.infos[value] = kept[value]
    wanted = [(value, info) for value, info in zip(node.outputs, infos, strict=True) if value is not None]
    _pick_outputs(op, wanted, values)


def _numbers(info: Info) -> Info:
    assert isinstance(info.type, TensorType)
    return Info(replace(info.type, dtype="int64"))


def _pick_outputs(op: Op, wanted: Sequence[tuple[Value, Info]], values: Sequence[Value]) -> None:
    lowering, count = op.lowering, len(wanted)

    def pick(*arrays: Array) -> list[Array]:
        pool = np.concatenate([np.array([""], object), *(strings.reshape(-1) for strings in arrays[count:])])
        return [pool[positions] for positions in arrays[:count]]

    inputs = [lowering.tensors[value] for value, _ in wanted] + [lowering.tensors[value] for value in values]
    made = lowering.step(op.node, pick, inputs, [info for _, info in wanted])
    for (value, _), tensor in zip(wanted, made, strict=True):
        assert tensor is not None
        tensor.name = value.name
        lowering.tensors[value] = tensor


def _positions(*arrays: Array) -> list[Array]:
    """The place of each string among all of them, from 1 on."""
    ends = np.cumsum([1, *(array.size for array in arrays)])
    pairs = zip(ends, arrays, strict=False)
    return [np.arange(start, start + array.size, dtype=np.int64).reshape(array.shape) for start, array in pairs]


@operator("Equal", since=19, types=STRING, python=True)
def equal(op: Op) -> None:
    """Spec: ONNX Equal-19."""
    op.python(lambda a, b: [np.asarray(a == b, bool)])


@operator("Cast", "CastLike", types=STRING, python=True)
def cast(op: Op) -> None:
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
