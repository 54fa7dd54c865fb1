"""Strips of resized images: a vector of columns through several rows, with elements that are picked within registers.

A gather loads its elements one by one. Neighboring columns of a resized row lie between neighboring elements of a row of x: a few
whole vectors, the windows, hold all of them, and a permutation by offsets in registers takes one element for each lane.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.lang import Ptr, emitter
from ort_lite_cpu.kernels.gemm.vectors import Vectors

LEAST = 8
"""The fewest lanes of a strip."""


def strip_lanes(target: Target) -> int:
    """Return the lanes of a strip of float32: those of a permutation by offsets in a register, or 0 if the target has none."""
    if target.vector_bytes == 64:
        return 16
    return LEAST if target.has("avx2") else 0


class StripColumns(NamedTuple):
    """The columns of a strip: number k lies between elements[k] of a row of x and the element `step` behind it."""

    elements: Ptr
    weights: Ptr
    """The weight of the second element for each column."""
    bases: Ptr
    """For each vector, the element with which its windows begin."""
    left: int
    """The columns from the first of the strip on: a strip of one vector with 16 lanes may have fewer columns than lanes."""
    step: int


class StripRows(NamedTuple):
    """The rows of a strip: number r lies between lows[r] of the `height` rows of x, `pitch` elements each, and the next."""

    lows: Ptr
    fractions: Ptr
    """The weights of the next rows."""
    rests: Ptr
    """1 less these."""
    length: int
    height: int
    pitch: int
    size: int
    """The elements of a row of y."""


class StripForm(NamedTuple):
    """The vectors of a strip, their lanes, and the windows of each: 1 to 4."""

    windows: int
    vectors: int
    lanes: int


class _Columns(Vectors):
    """Emits operations on one vector of columns."""

    def __init__(self, builder: Any, columns: Any, pitch: Any, form: StripForm, number: int) -> None:
        from llvmlite import ir

        super().__init__(builder, ir.FloatType(), form.lanes)
        first, narrow = self.integer(number * form.lanes), form.lanes > LEAST
        self.offset_type, self.windows, self.first = ir.VectorType(ir.IntType(32), form.lanes), form.windows, first
        self.stored = self._hold(self.mask(columns.left)) if narrow and form.vectors == 1 else None
        self.base = builder.load(self.move(columns.bases, self.integer(number)))
        self.loaded = self._loads(builder.sub(pitch, self.base)) if narrow else [None] * form.windows
        self.weights = self.load(self.move(columns.weights, first), 0, self.stored)
        self.rests, counts = builder.fsub(self.constant(1.0), self.weights), self.counts(self.weights)
        self.weighted = self._hold(counts) if narrow else counts
        self.offsets = self._offsets(self.move(columns.elements, first))
        self.further = builder.add(self.offsets, self._splat(builder.trunc(columns.step, ir.IntType(32)), self.offset_type))

    def _loads(self, left: Any) -> list[Any]:
        """Return the masks of the windows, in a row with so many elements left."""
        return [self._hold(mask) for mask in self.masks(left, self.windows)]

    def _hold(self, mask: Any) -> Any:
        """Return the mask as one that LLVM does not know: it would repeat the comparison in each round."""
        return self.builder.bitcast(self.opaque(self.builder.bitcast(mask, self.ir.IntType(self.lanes))), mask.type)

    def _offsets(self, elements: Any) -> Any:
        """Return the elements of the columns, counted from that with which the windows begin."""
        kind = self.ir.VectorType(self.ir.IntType(64), self.lanes)
        address = self.builder.bitcast(elements, kind.as_pointer())
        held = (
            self.masked_load(address, kind, 8, self.stored) if self.stored is not None else self.builder.load(address, align=8)
        )
        return self.builder.trunc(self.builder.sub(held, self._splat(self.base, kind)), self.offset_type)

    def read(self, row: Any) -> list[Any]:
        """Return the windows of a row of x. Those of the next strip are prefetched."""
        place, ahead = self.move(row, self.base), self.windows + 1
        for i in range(self.windows):
            self.prefetch(self.move(place, self.integer((ahead + i) * self.lanes)))
        return [self.load(place, i * self.lanes, mask) for i, mask in enumerate(self.loaded)]

    def counts(self, w: Any) -> Any:
        """Return a mask of the weights that are not 0."""
        return self.builder.fcmp_unordered("!=", w, self.zero)

    def blend(self, a: Any, b: Any, rest: Any, w: Any, counts: Any) -> Any:
        """Return a * rest + b * w, or a * rest where the weight w is 0: an infinity without weight does not count."""
        first = self.builder.fmul(a, rest)
        return self.builder.select(counts, self.fma(b, w, first), first)

    def resize(self, windows: Sequence[Any]) -> Any:
        """Return the columns of a row of x. Offsets behind the windows wrap around: they are without weight."""
        return self.blend(
            self.pick(windows, self.offsets), self.pick(windows, self.further), self.rests, self.weights, self.weighted
        )

    def pick(self, windows: Sequence[Any], offsets: Any) -> Any:
        """Return the elements at the offsets, which count through the windows."""
        wide, count = self.lanes > LEAST, len(windows)
        if count == 1:
            name = "llvm.x86.avx512.permvar.sf.512" if wide else "llvm.x86.avx2.permps"
            return self.builder.call(self._declare(name, self.type, [self.type, self.offset_type]), [windows[0], offsets])
        if count == 2 and wide:
            kinds = [self.type, self.offset_type, self.type]
            permute = self._declare("llvm.x86.avx512.vpermi2var.ps.512", self.type, kinds)
            return self.builder.call(permute, [windows[0], offsets, windows[1]])
        half = (count + 1) // 2
        bits = self.builder.and_(offsets, self.ir.Constant(self.offset_type, [half * self.lanes] * self.lanes))
        upper = self.builder.icmp_unsigned("!=", bits, self.ir.Constant(self.offset_type, None))
        return self.builder.select(upper, self.pick(windows[half:], offsets), self.pick(windows[:half], offsets))

    def write(self, value: Any, row: Any) -> None:
        """Write the columns of a row of y."""
        self.store(value, self.move(row, self.first), 0, self.stored)


@emitter("void(*f32,*f32,*i64,*f32,*i64,i64,i64,*i64,*f32,*f32,i64,i64,i64,i64,static,static,static,static,static)")
def resize_strip(
    builder: Any, x: Any, y: Any, columns: Any, rows: Any, order: str, nearest: str, windows: int, vectors: int, lanes: int
) -> None:
    """y = a strip of some vectors, each of which has elements of so many windows, from rows x (height, pitch) of one image.

    order: "columns" resizes columns and blends the results, once for each row of x; "rows" blends rows first. "low" reads the rows
    at lows, and "each" one row after the other. nearest: columns are elements of x, or blended if it is "".
    """
    form = StripForm(windows, vectors, lanes)
    strip = [_Columns(builder, columns, rows.pitch, form, number) for number in range(vectors)]
    emit = strip[0]

    def load(pointer: Any, r: Any) -> Any:
        return builder.load(emit.move(pointer, r))

    def weights(r: Any) -> list[Any]:
        """Return vectors of the weights of the two rows, and a mask that is true if the second counts."""
        rest, w = (emit.splat(load(pointer, r)) for pointer in (rows.rests, rows.fractions))
        return [rest, w, emit.counts(w)]

    def row(number: Any) -> Any:
        return emit.move(x, builder.mul(number, rows.pitch))

    def below(number: Any) -> Any:
        """Return the row of x behind another, the last behind itself."""
        following, last = builder.add(number, emit.integer(1)), builder.sub(rows.height, emit.integer(1))
        return row(builder.select(builder.icmp_signed("<", following, last), following, last))

    def write(r: Any, values: Sequence[Any]) -> None:
        place = emit.move(y, builder.mul(r, rows.size))
        for vector, value in zip(strip, values, strict=True):
            vector.write(value, place)

    def one_row(r: Any, _: Any) -> list[Any]:
        source, values = row(load(rows.lows, r) if order == "low" else r), []
        for vector in strip:
            read = vector.read(source)
            values.append(vector.pick(read, vector.offsets) if nearest else vector.resize(read))
        write(r, values)
        return []

    def rows_first(r: Any, _: Any) -> list[Any]:
        low = load(rows.lows, r)

        def add_next(first: list[Any]) -> list[Any]:
            others, pair = [value for vector in strip for value in vector.read(below(low))], weights(r)
            return [emit.blend(a, b, *pair) for a, b in zip(first, others, strict=True)]

        counts = builder.fcmp_unordered("!=", load(rows.fractions, r), emit.element(0.0))
        blended = emit.when(counts, [value for vector in strip for value in vector.read(row(low))], add_next)
        write(r, [vector.resize(blended[k * windows : (k + 1) * windows]) for k, vector in enumerate(strip)])
        return []

    def columns_first(r: Any, carried: Sequence[Any]) -> list[Any]:
        held, pair, low = carried[0], list(carried[1:]), load(rows.lows, r)
        jumps = builder.icmp_signed("!=", low, builder.add(held, emit.integer(1)))

        def columns_of(source: Any) -> list[Any]:
            return [vector.resize(vector.read(source)) for vector in strip]

        def renew(pair: list[Any]) -> list[Any]:
            return [*emit.when(jumps, pair[vectors:], lambda _: columns_of(row(low))), *columns_of(below(low))]

        pair = emit.when(builder.icmp_signed("!=", low, held), pair, renew)
        own = weights(r)
        write(r, [emit.blend(a, b, *own) for a, b in zip(pair[:vectors], pair[vectors:], strict=True)])
        return [low, *pair]

    body = {"each": one_row, "low": one_row, "rows": rows_first, "columns": columns_first}[order]
    start = [emit.integer(-2), *[emit.zero] * (2 * vectors)] if order == "columns" else []
    emit.loop(emit.integer(0), rows.length, 1, start, body)
