"""Maps: Python steps over dicts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite_cpu.lowering.attributes import one_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators import numerals
from ort_lite_cpu.registry import ANY, operator
from ort_lite_cpu.run.pace import ELEMENTS

ML = "ai.onnx.ml"


@operator("ZipMap", domain=ML, types=frozenset({"float32"}), python=True)
def zip_map(op: NodeLowering) -> None:
    """Map (N, C) or (C) to N dicts from label to number, labels in order. Spec: ONNX-ML ZipMap-1."""
    labels = one_of(op, "classlabels_strings", "classlabels_int64s")
    order = sorted(range(len(labels)), key=lambda k: labels[k])
    is_sorted, count = order == list(range(len(labels))), len(labels)
    keyed, pace, most = RowsToDicts([labels[k] for k in order]), op.pace, max(ELEMENTS // max(count, 1), 1)

    def step(x: Array) -> list[list[dict[Any, float]]]:
        shape = x.shape
        if not 1 <= len(shape) <= 2 or shape[-1] != count:
            raise ValueError(f"rows of the shape {shape} are not of {count} labels")
        rows, made = x if len(shape) == 2 else x.reshape(1, count), keyed.made
        if len(rows) <= most:
            return [made((rows if is_sorted else rows[:, order]).tolist())]
        dicts: list[dict[Any, float]] = []
        for part in pace.slices(len(rows), most):
            dicts += made(_rows(rows[part] if is_sorted else rows[part][:, order]))
        return [dicts]

    op.python(step)


def _rows(x: Array) -> Iterable[Sequence[float]]:
    """Yield rows one at a time: Python's garbage collector would go through lists of thousands of them again and again."""
    return zip(*x.T.tolist(), strict=True) if x.shape[1] else x.tolist()


_WRITTEN_OUT = 32
"""The most keys of a dict that is written out as `{key0: v0, ...}`, which takes a third of `dict(zip(...))`."""


class RowsToDicts:
    """Makes dicts of rows: `made` is a function, which a prepared program cannot hold if its text was put together here."""

    __slots__ = ("_keys", "made")

    def __init__(self, keys: list[Any]) -> None:
        self._keys = keys
        self.made: Callable[[Iterable[Sequence[float]]], list[dict[Any, float]]] = (
            _writer(len(keys))(*keys)
            if 0 < len(keys) <= _WRITTEN_OUT
            else lambda rows: [dict(zip(keys, row, strict=True)) for row in rows]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsToDicts, (self._keys,)


@cache
def _writer(count: int) -> Any:
    """Return a function that makes dicts of so many keys. Compiling its text, which depends on their number alone, takes 0.25
    ms.
    """
    numbers = range(count)
    items, values = ", ".join(f"k{k}: v{k}" for k in numbers), ", ".join(f"v{k}" for k in numbers)
    text = f"lambda {', '.join(f'k{k}' for k in numbers)}: lambda rows: [{{{items}}} for ({values},) in rows]"
    return eval(text, {"__builtins__": {}})


@operator("DictVectorizer", domain=ML, types=ANY, python=True)
def dict_vectorizer(op: NodeLowering) -> None:
    """Map a dict to (1, size of the vocabulary) of its values, zeros and empty strings for keys that it lacks.

    Spec: ONNX-ML DictVectorizer-1.
    """
    words = one_of(op, "string_vocabulary", "int64_vocabulary")
    dtype = to_numpy(op.info().dtype or "")
    fill: Any = "" if dtype.hasobject else 0
    pace = op.pace

    def step(values: Mapping[Any, Any]) -> list[Array]:
        y = np.empty((1, len(words)), dtype)
        for part in pace.slices(len(words)):
            y[0, part] = [values.get(word, fill) for word in words[part]]
        return [y]

    op.python(step)


_CASTS: dict[str, tuple[Any, Any, Any]] = {
    "TO_FLOAT": (np.float32, 0.0, lambda value: numerals.real(value) if isinstance(value, str) else float(value)),
    "TO_INT64": (np.int64, 0, lambda value: numerals.whole(value) if isinstance(value, str) else int(value)),
    "TO_STRING": (object, "0.f", lambda value: value if isinstance(value, str) else f"{value:f}"),
}
"""Element type, what fills a sparse row, and the conversion; strings are written as onnxruntime writes them."""


@operator("CastMap", domain=ML, types=ANY, python=True)
def cast_map(op: NodeLowering) -> None:
    """Map a dict to (1, entries) of its values by rising keys; sparse: (1, max_map), each at the place that its key names.

    Spec: ONNX-ML CastMap-1.
    """
    dtype, fill, convert = _CASTS[op.attr("cast_to", "TO_FLOAT")]
    sparse, width = op.attr("map_form", "DENSE") == "SPARSE", op.attr("max_map", 1)
    pace = op.pace

    def step(values: Mapping[int, Any]) -> list[Array]:
        every = list(values)
        keys = pace.sort_blocks(every[part] for part in pace.slices(len(every)))
        if sparse and keys and keys[0] < 0:
            raise ValueError(f"the key {keys[0]} is below zero: keys of a sparse map are places")
        y = np.full((1, width), fill, dtype) if sparse else np.empty((1, len(keys)), dtype)
        for part in pace.slices(len(keys)):
            chosen = [key for key in keys[part] if key < width] if sparse else keys[part]
            made = [convert(values[key]) for key in chosen]
            if dtype is object:
                pace.take_texts(made)
            with np.errstate(over="ignore"):
                y[0, chosen if sparse else part] = made
        return [y]

    op.python(step)
