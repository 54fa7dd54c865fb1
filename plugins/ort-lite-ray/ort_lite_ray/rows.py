"""Rows of a batch as feeds of a model: stacked if they have one shape, in buckets or padded if they have several."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.errors import InvalidArgument

Array = np.ndarray[Any, np.dtype[Any]]
Columns = Mapping[str, Array]
"""Columns by name: arrays with the rows along their first axis, or arrays of objects if the shapes of rows differ."""
Shapes = tuple[tuple[int, ...], ...]


def buckets(columns: Columns, largest: int | None = None) -> Iterator[tuple[list[int], dict[str, Array]]]:
    """Group rows whose shapes agree in all columns. Yields their positions and the stacked columns, at most `largest` rows at a time.

    Buckets are in the order of their first row, and rows keep their order.
    """
    found: dict[Shapes, list[int]] = {}
    for k, shapes in enumerate(_shapes(columns)):
        found.setdefault(shapes, []).append(k)
    for places in found.values():
        for start in range(0, len(places), largest or len(places)):
            chosen = places[start : start + (largest or len(places))]
            yield chosen, {name: np.stack([np.asarray(column[k]) for k in chosen]) for name, column in columns.items()}


def pad_columns(columns: Columns, fill: Mapping[str, float]) -> dict[str, Array]:
    """Pad the columns named in `fill` to their longest row on every axis, with `fill[name]` at the end.

    Raises InvalidArgument if rows of one column differ in their number of axes.
    """
    return {name: _pad(name, column, fill[name]) if name in fill else column for name, column in columns.items()}


def column(rows: Sequence[Array]) -> Array:
    """Stack rows into one array if their shapes agree; otherwise return an array of objects, one per row."""
    if len({row.shape for row in rows}) <= 1:
        return np.stack(rows) if rows else np.empty(0)
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


def _shapes(columns: Columns) -> Iterator[Shapes]:
    count = len(next(iter(columns.values())))
    ragged = [column for column in columns.values() if column.dtype.hasobject]
    return (tuple(np.shape(column[k]) for column in ragged) for k in range(count))


def _pad(name: str, rows: Array, fill: float) -> Array:
    if not rows.dtype.hasobject or not len(rows):
        return rows
    arrays = [np.asarray(row) for row in rows]
    if len({array.ndim for array in arrays}) > 1:
        axes = sorted({array.ndim for array in arrays})
        raise InvalidArgument(f"{name!r} is to be padded, but has rows of {axes} axes; expected one number of axes in a batch")
    longest = tuple(np.max([array.shape for array in arrays], axis=0))
    made = np.full((len(arrays), *longest), fill, arrays[0].dtype)
    for k, array in enumerate(arrays):
        made[k][tuple(map(slice, array.shape))] = array
    return made
