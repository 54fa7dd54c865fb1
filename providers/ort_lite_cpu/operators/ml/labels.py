"""LabelEncoder and CategoryMapper: from keys to values. Keys that are numbers are searched natively, strings in a dict."""

from itertools import chain
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, DType, to_numpy
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, native, span
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.lookup import Table
from ort_lite_cpu.operators.text_steps import Dims, emit_lookup, emit_texts
from ort_lite_cpu.registry import STRING, operator

ML = "ai.onnx.ml"
NUMBERS = frozenset({"float32", "float64", "int16", "int32", "int64"})
DEFAULTS: dict[str, Any] = {"string": "_Unused", "int64": -1, "float": -0.0}


@native
def find_key(keys: Ptr, count: int, key: int) -> int:
    """Return the position of `key` in the sorted keys, NaN last; `count` if it is absent."""
    if key != key:  # NaN is what differs from itself
        last = count - 1
        return last if count > 0 and keys[last] != keys[last] else count
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < count and keys[low] == key else count


@native
@extents(x="size", keys="count", values="count + 1", y="size")
def encode(x: Ptr, keys: Ptr, values: Ptr, y: Ptr, size: int, count: int, part: int, parts: int) -> int:
    """y = the values of x's keys; values[count] for what is no key."""
    for i in span(size, part, parts):
        y[i] = values[find_key(keys, count, x[i])]
    return OK


def _list(op: NodeLowering, name: str, kind: str) -> Any:
    """Return an attribute that is there for each type: `keys_int64s`, or `keys_tensor` for any. None where it is missing."""
    found = op.attr(f"{name}_{kind}s")
    tensor = op.attr(f"{name}_tensor")
    return tensor.reshape(-1) if not found and tensor is not None else found


def _kind(dtype: DType | None) -> str:
    return {"string": "string", "float32": "float", "float64": "float"}.get(dtype or "", "int64")


def _table(op: NodeLowering) -> tuple[Any, Any, Any]:
    """Return keys, values, and the value of everything else. Before version 2 there are only strings, numbered from 0."""
    source, target = _kind(op.raw(0).dtype), _kind(op.info().dtype)
    given = op.attr("default_tensor")
    if given is not None and not given.size:
        raise op.reject("default_tensor has no element")
    default = op.attr(f"default_{target}", DEFAULTS[target]) if given is None else given.reshape(-1)[0]
    if op.node.op_type == "CategoryMapper":
        return op.attr(f"cats_{source}s"), op.attr(f"cats_{target}s"), default
    if op.version < 2:
        strings = list(op.attr("classes_strings") or ())
        columns = {"string": strings, "int64": range(len(strings))}
        return columns[source], columns[target], default
    return _list(op, "keys", source), _list(op, "values", target), default


def _check_table(op: NodeLowering) -> tuple[Any, Any, Any]:
    keys, values, default = _table(op)
    if keys is None or values is None or len(keys) != len(values):
        counts = "not there" if keys is None or values is None else f"{len(keys)} and {len(values)}"
        raise op.reject(f"keys of {op.raw(0).dtype} and values of {op.info().dtype} should be as many; they are {counts}")
    return keys, values, default


def _emit_search(op: NodeLowering, keys: Any, values: Array) -> None:
    """Emit values[k] for key k, the last one for others; values are numbers, or strings that a Python step puts in their places."""
    x = op.input(0)
    known, first = np.unique(np.array(keys, to_numpy(x.dtype)), return_index=True)
    chosen = values[[*first, len(values) - 1]]
    texts = chosen.dtype == object
    y = op.temporary("int64", x.shape) if texts else op.output(0)
    table = np.arange(len(chosen)) if texts else chosen
    op.emit(encode, [x, op.table(known), op.table(table), y], size=x.size, count=len(known), work=x.size * 8)
    if texts:
        pace = op.pace
        op.python(lambda numbers: [pace.pick(chosen, numbers)], [y])


@operator("LabelEncoder", domain=ML, types=NUMBERS)
@operator("CategoryMapper", "LabelEncoder", domain=ML, types=STRING, python=True)
def label_encoder(op: NodeLowering) -> None:
    """Map numbers or strings to either. Of equal keys the first counts. Spec: ONNX-ML LabelEncoder-4, CategoryMapper-1."""
    keys, values, default = _check_table(op)
    target = op.info().dtype
    assert target is not None
    if op.raw(0).dtype != "string":
        _emit_search(op, keys, np.array([*values, default], to_numpy(target)))
        return
    mapping: dict[str, Any] = {}
    for key, value in zip(keys, values, strict=True):
        mapping.setdefault(key, value)
    if target != "string":
        op.set(0, emit_lookup(op, mapping, target, default))
        return
    pace, table = op.pace, Table(mapping, default)

    def replace(texts: list[str], shape: Dims) -> tuple[list[str], Dims]:
        return [*chain.from_iterable(table.find(texts[part]) for part in pace.slices(len(texts)))], shape

    emit_texts(op, replace)
