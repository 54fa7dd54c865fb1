"""Rows of images in registers: what a window with a stride sees of a row, without a copy with padding.

A row is read once, in whole vectors. Column c of a result sees columns c * stride + offset of the row, for the offsets of its window.
The columns with one remainder by the stride are a phase of the row. A vector of results sees, for each offset, one vector of a phase,
moved by some lanes: its elements are picked from two neighboring vectors. Columns outside of the row have a value of their own.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ort_lite.native.lang import StaticInt
from ort_lite_cpu.kernels.gemm.vectors import Vectors


class RowForm(NamedTuple):
    """The compile-time sizes of the windows along a row."""

    taps: StaticInt
    stride: StaticInt
    dilation: StaticInt
    front: StaticInt
    """Columns outside of the row in front of it that the first result sees."""
    lanes: StaticInt

    @property
    def offsets(self) -> list[int]:
        """The columns that the first result sees."""
        return [tap * self.dilation - self.front for tap in range(self.taps)]

    @property
    def moves(self) -> list[int]:
        """By how many lanes the vectors of a phase are moved, for each tap."""
        return [offset // self.stride for offset in self.offsets]

    @property
    def ahead(self) -> int:
        """1 if a vector of results sees the next vector of a phase, else 0."""
        return int(max(self.moves) > 0)

    @property
    def back(self) -> int:
        """1 if a vector of results sees the vector of a phase before its own, else 0."""
        return int(min(self.moves) < 0)


def fits_streams(form: RowForm) -> bool:
    """Return True if results see no more than two neighboring vectors of a phase for each tap."""
    return -form.lanes <= min(form.moves) and max(form.moves) <= form.lanes


Read = Callable[[Any, Any], list[Any]]
"""read(column, mask) returns a vector of each of some rows from a column on; a mask selects the columns that are in the rows."""


class RowStream:
    """Reads some rows vector by vector, and gives each vector of results the taps that it sees."""

    def __init__(self, emit: Vectors, form: RowForm, rows: int, width: Any, outside: Any, read: Read) -> None:
        self.emit, self.form, self.rows, self.width, self.outside, self.read = emit, form, rows, width, outside, read
        self.phases = sorted({offset % form.stride for offset in form.offsets})
        self.span = form.stride * form.lanes
        self.nothing = [outside] * (rows * len(self.phases))

    def start(self) -> list[Any]:
        """Return what is carried to the first vector of results."""
        return self.nothing * self.form.back + (self._split(self.emit.integer(0), True) if self.form.ahead else [])

    def whole(self, results: Any) -> Any:
        """Return the number of vectors of results that see no column behind the rows and end with `results` columns or before."""
        builder, integer = self.emit.builder, self.emit.integer
        own = builder.sub(builder.sdiv(self.width, integer(self.span)), integer(self.form.ahead))
        most = builder.sdiv(results, integer(self.form.lanes))
        return builder.select(builder.icmp_signed("<", own, most), own, most)

    def step(self, number: Any, carried: Sequence[Any], masked: bool) -> tuple[list[list[Any]], list[Any]]:
        """Return the taps of a vector of results, row by row, and what is carried to the next one."""
        emit, form, count = self.emit, self.form, len(self.nothing)
        at = emit.mul(emit.builder.add(number, emit.integer(form.ahead)), self.span)
        if masked and form.ahead:
            inside = emit.builder.icmp_signed("<", at, self.width)
            new = emit.when(inside, self.nothing, lambda _: self._split(at, True))
        else:
            new = self._split(at, masked)
        before = list(carried[:count]) if form.back else self.nothing
        own = list(carried[count * form.back :]) if form.ahead else new
        after = new if form.ahead else self.nothing
        taps = []
        for row in range(self.rows):
            places = [self.phases.index(offset % form.stride) * self.rows + row for offset in form.offsets]
            pairs = [(before, own) if move < 0 else (own, after) for move in form.moves]
            seen = zip(places, pairs, form.moves, strict=True)
            taps.append([self._move(pair[0][k], pair[1][k], move) for k, pair, move in seen])
        return taps, own * form.back + new * form.ahead

    def _move(self, first: Any, second: Any, count: int) -> Any:
        """Return `lanes` elements of two neighboring vectors: from `count` on, from the end of the first if it is negative."""
        lanes = self.form.lanes
        start = count + lanes * (count < 0)
        if start in (0, lanes):
            return second if start else first
        return self._pick(first, second, [start + i for i in range(lanes)])

    def _pick(self, first: Any, second: Any, places: Sequence[int]) -> Any:
        ir = self.emit.ir
        order = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
        return self.emit.builder.shuffle_vector(first, second, order)

    def _split(self, at: Any, masked: bool) -> list[Any]:
        """Return the phases of the rows from column `at` on, a vector of each row."""
        emit, builder, lanes, stride = self.emit, self.emit.builder, self.form.lanes, self.form.stride
        vectors = []
        for k in range(stride):
            column = builder.add(at, emit.integer(k * lanes))
            mask = emit.mask(builder.sub(self.width, column)) if masked else None
            read = self.read(column, mask)
            vectors.append([builder.select(mask, value, self.outside) for value in read] if masked else read)
        return [self._phase(own, phase) for phase in self.phases for own in zip(*vectors, strict=True)]

    def _phase(self, vectors: Sequence[Any], phase: int) -> Any:
        """Return the elements phase, phase + stride, ... of some vectors side by side."""
        lanes, found = self.form.lanes, vectors[0]
        places = [phase + i * len(vectors) for i in range(lanes)]
        for k in range(1, len(vectors)):
            held = places if k == 1 else range(lanes)
            found = self._pick(
                found,
                vectors[k],
                [
                    p - (k - 1) * lanes if p // lanes == k else q if p // lanes < k else 0
                    for p, q in zip(places, held, strict=True)
                ],
            )
        return found
