"""Growth: presents that a run computes behind their pasts, in arrays of the caller that have room for more rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite_cpu.program.bind import Bound
from ort_lite_cpu.program.segment_run import RoomOf
from ort_lite_cpu.run.address import address_of

AXIS = 2
"""The axis of rows, of caches (batch, heads, rows, size)."""


class RunGrowth(NamedTuple):
    """The room of one run: for inputs, for the places of outputs, and as the caller gave it by the positions of outputs."""

    rooms: tuple[RoomOf, ...]
    bases: Mapping[int, Array]
    given: Mapping[int, Array]

    def targets(self, bound: Bound, others: Mapping[int, Array]) -> Mapping[int, Array]:
        """Return the arrays in which outputs are computed, by place: `others`, and beginnings of the bases for presents that fit."""
        if not self.rooms:
            return others
        own = [(place, shape[AXIS]) for place, _, shape, _ in bound.allocations if place in self.bases]
        fitting = {place: self.bases[place][:, :, :rows] for place, rows in own if rows <= self.bases[place].shape[AXIS]}
        return {**others, **fitting}


NO_GROWTH = RunGrowth((), {}, {})


def prepare_growth(
    inputs: Sequence[Any], given: Mapping[int, Array], growths: Mapping[int, tuple[int, int]], output_places: Sequence[int]
) -> tuple[list[Any], RunGrowth]:
    """Return the inputs and the growth of a run. An input that is the beginning of an array which cannot grow is copied."""
    rooms: list[RoomOf] = []
    bases: dict[int, Array] = {}
    for k, base in given.items():
        at, _ = growths.get(k, (-1, AXIS))
        if at >= 0 and _begins(inputs[at], base):
            rooms.append((at, base.shape[AXIS]))
            bases[output_places[k]] = base
    strided = dict(rooms)
    own = [x if j in strided else _contiguous(x) for j, x in enumerate(inputs)]
    return own, RunGrowth(tuple(rooms), bases, given)


def _contiguous(x: Any) -> Any:
    return x if not isinstance(x, np.ndarray) or x.flags.c_contiguous else x.copy()


def _begins(x: Any, base: Array) -> bool:
    """Return True if an array has the first rows of a contiguous one."""
    if not base.flags.c_contiguous or x.dtype != base.dtype or address_of(x) != address_of(base) or x.strides != base.strides:
        return False
    rows: int = x.shape[AXIS]
    return rows <= base.shape[AXIS] and (*x.shape[:AXIS], *x.shape[AXIS + 1 :]) == (*base.shape[:AXIS], *base.shape[AXIS + 1 :])
