"""Rows of a depthwise convolution over one plane of an image (N, C, H, W): the register tile of `planes`, and the copy with padding.

Vectors hold pixels of a row, and a tile some rows: what these share of the input is loaded once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ort_lite.native.cpu import Target
from ort_lite.native.lang import Ptr, Static, StaticInt, emitter, like, native, shift
from ort_lite_cpu.kernels.gemm.microkernel import add_and_clip
from ort_lite_cpu.kernels.gemm.vectors import Vectors

ROWS, TALL = 4, 7
"""Output rows of a register tile: what they share of the input is loaded once. Planes are as often 7 rows high as a multiple."""
LARGE = 5
"""The lines from which windows take tiles of TALL rows, with weights from memory, where rows are masked (decision 0128)."""
NARROW = 9
"""The taps of windows for which rows of a quarter of a vector are worth a mask."""
MAX_TAPS = 49
"""Kernels up to this size are unrolled."""
MAX_STRIDE = 2
COPIED, MASKED = -1, -2
"""Rows are computed from a copy with padding; or masks leave out what vectors see beside the image, on targets that have them."""
FORM = ",".join(["static"] * 9)
"""The fields of a PlaneForm in the signature of an emitted function."""


class PlaneForm(NamedTuple):
    """The compile-time sizes of a window of lines x taps with strides `down` and `across`, and the way in which rows are read."""

    lines: StaticInt
    taps: StaticInt
    down: StaticInt
    across: StaticInt
    front: StaticInt
    """Columns of zeros before the image."""
    behind: StaticInt
    """Columns of zeros after it; COPIED or MASKED if rows are read in another way."""
    held: StaticInt
    """1 if there are registers for all weights of a channel: see `weights_fit`."""
    lanes: StaticInt
    tall: StaticInt
    """The rows of a register tile of masked rows, if there are as many."""


def weights_fit(target: Target, lines: int, taps: int, across: int) -> bool:
    """Return True if all weights of a channel have registers beside sums and inputs; otherwise they are read when they are used.

    A multiplication that is not fused needs some for its results; AArch64 and masked rows with a stride load several inputs at once.
    Large windows have more rows of sums where they are masked.
    """
    if can_mask(target):
        return lines < LARGE and lines * taps + ROWS + (6 if across > 1 else 1) <= target.vector_registers
    spare = 1 if target.has_fma and target.architecture == "x86_64" else 4
    return lines * taps + ROWS + spare <= target.vector_registers


def can_mask(target: Target) -> bool:
    """Return True if loads and stores with masks cost no more than others."""
    return target.has("avx512f,avx512vl")


def fits_in_place(width: int, lanes: int, taps: int, front: int, behind: int) -> bool:
    """Return True if rows of `width` results are computed from the image itself, with so many columns of zeros around it.

    A vector sees those of one side at most, and no more than it has lanes.
    """
    if not (0 <= front < lanes and 0 <= behind < lanes):
        return False
    return width >= lanes + front + behind or (width == lanes and front + behind < taps)


@native
def begin_table(table: Ptr, low: float, high: float, seen: int) -> None:
    """Write what `band_of_rows` reads, but for the bias: limits, and zeros for the `seen` elements of a padded copy."""
    table[0], table[1] = like(table, low), like(table, high)
    for i in range(3, 3 + seen):
        table[i] = like(table, 0)


@native
def band_of_rows(
    x: Ptr,
    w: Ptr,
    table: Ptr,
    residual: Ptr,
    y: Ptr,
    top: int,
    count: int,
    ih: int,
    iw: int,
    ow: int,
    mode: int,
    form: PlaneForm,
    behind: Static,
    tall: Static,
) -> None:
    """y (count, ow), some rows of a plane; they see x (ih, iw) from its row `top` on, which may lie in front of it.

    table: lower limit, upper limit, bias, and behind them zeros as `_pad` leaves them. The three are read whenever they are used,
    which leaves their registers to sums and weights.
    `behind` and `tall` are those of the form, on which the compiler decides.
    """
    down, across = form.down, form.across
    copied, pitch, row = shift(table, 3), ow + (form.taps - 1) // across, 0
    if behind == COPIED:
        _pad(x, copied, top, (count - 1) * down + form.lines, ih, iw, form.front, pitch, form.across, form.lanes)
    while row < count:
        left = count - row
        if behind == MASKED and left < ROWS <= count:  # the last rows with some that were computed before
            row = count - ROWS
        a, h, many = shift(copied, row * down * pitch * across), top + row * down, count - row >= ROWS
        out, other = shift(y, row * ow), shift(residual, row * ow)
        if behind == MASKED and tall > ROWS and left >= tall and left != 2 * ROWS:
            _rows_by_masks(x, copied, h, ih, iw, w, table, other, out, ow, mode, tall, form)
            row += tall - ROWS
        elif behind == MASKED and many:
            _rows_by_masks(x, copied, h, ih, iw, w, table, other, out, ow, mode, ROWS, form)
        elif behind == MASKED:
            _rows_by_masks(x, copied, h, ih, iw, w, table, other, out, ow, mode, 1, form)
        elif behind >= 0 and many:
            _rows_in_place(x, copied, h, ih, iw, w, table, other, out, ow, mode, ROWS, form)
        elif behind >= 0:
            _rows_in_place(x, copied, h, ih, iw, w, table, other, out, ow, mode, 1, form)
        elif many:
            _rows_from_copy(a, pitch, w, table, other, out, ow, mode, ROWS, form)
        else:
            _rows_from_copy(a, pitch, w, table, other, out, ow, mode, 1, form)
        row += ROWS if many else 1


@native
def _pad(x: Ptr, y: Ptr, top: int, rows: int, ih: int, iw: int, pw: int, pitch: int, across: Static, lanes: Static) -> None:
    """y (rows, across, pitch): rows `top` and following of x (ih, iw), each with pw zeros in front and zeros behind, which are there.

    Column i of a padded row is number i // across of run i % across, so that what a tap sees of a row is one run of memory.
    """
    for row in range(rows):
        h = top + row
        for run in range(across):
            at = (row * across + run) * pitch
            first = min((pw - run + across - 1) // across, pitch)
            last = max(min((iw + pw - run + across - 1) // across, pitch), first)
            if h < 0 or h >= ih:
                for i in range(pitch):
                    y[at + i] = like(y, 0)
            else:
                source, target, count = shift(x, h * iw + first * across + run - pw), shift(y, at + first), last - first
                if count >= lanes:
                    _copy(source, target, count, across, lanes)
                else:
                    for i in range(count):
                        target[i] = source[i * across]


@emitter("void(*F,*F,i64,static,static)")
def _copy(builder: Any, x: Any, y: Any, count: Any, step: int, lanes: int) -> None:
    """y[i] = x[i * step], a step of 1 or 2, for a count of lanes at least: the last vector overlaps. Nothing behind it is read."""
    emit = Vectors(builder, x.type.pointee, lanes)
    end = builder.sub(count, emit.integer(lanes))
    word = emit.ir.VectorType(emit.ir.IntType(32), lanes)
    even = emit.ir.Constant(word, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])

    def along(position: Any, _: Sequence[Any]) -> list[Any]:
        at = builder.select(builder.icmp_signed("<", end, position), end, position)
        source = emit.move(x, emit.mul(at, step))
        value = emit.load(source, 0)
        if step == 2:
            value = builder.shuffle_vector(value, emit.load(source, lanes - 1), even)
        emit.store(value, emit.move(y, at), 0)
        return []

    emit.loop(emit.integer(0), builder.add(count, emit.integer(lanes - 1)), lanes, [], along)


@emitter(f"void(*F,i64,*F,*F,*F,*F,i64,i64,static,{FORM})")
def _rows_from_copy(
    builder: Any,
    x: Any,
    pitch: Any,
    w: Any,
    table: Any,
    residual: Any,
    y: Any,
    ow: Any,
    mode: Any,
    rows: int,
    form: PlaneForm,
) -> None:
    """y (rows, ow) of one plane from x ((rows - 1) * down + lines, across, pitch), as `_pad` leaves it.

    The last vector of a row ends with it, and computes again what the one before has too.
    """
    across, lanes = form.across, form.lanes
    tile = _Rows(Vectors(builder, x.type.pointee, lanes), w, table, residual, y, ow, mode, rows, form)
    emit, end = tile.emit, builder.sub(ow, tile.emit.integer(lanes))

    def along(position: Any, _: Sequence[Any]) -> list[Any]:
        at = builder.select(builder.icmp_signed("<", end, position), end, position)

        def source(line: int) -> Any:
            return emit.move(x, builder.add(emit.mul(pitch, line * across), at))

        def load(pointer: Any, tap: int) -> Any:
            return emit.load(emit.move(pointer, emit.mul(pitch, tap % across)), tap // across)

        tile.compute(at, source, load)
        return []

    emit.loop(emit.integer(0), builder.add(ow, emit.integer(lanes - 1)), lanes, [], along)


@emitter(f"void(*F,*F,i64,i64,i64,*F,*F,*F,*F,i64,i64,static,{FORM})")
def _rows_in_place(
    builder: Any,
    x: Any,
    zeros: Any,
    top: Any,
    ih: Any,
    iw: Any,
    w: Any,
    table: Any,
    residual: Any,
    y: Any,
    ow: Any,
    mode: Any,
    rows: int,
    form: PlaneForm,
) -> None:
    """y (rows, ow) of one plane, whose first row sees rows `top` and following of x (ih, iw), with a stride of 1 along them.

    `front` and `behind` are the columns of zeros on both sides, zeros (iw,) is a row outside. The first and the last vector of a row
    see them: what they read is moved by so many lanes. Vectors between them overlap where they have to. ow is lanes, or
    lanes + front + behind at least.
    """
    lines, taps, down, front, behind, lanes = form.lines, form.taps, form.down, form.front, form.behind, form.lanes
    tile = _Rows(Vectors(builder, x.type.pointee, lanes), w, table, residual, y, ow, mode, rows, form)
    emit, sources = tile.emit, _sources(tile.emit, x, zeros, top, ih, iw, (rows - 1) * down + lines)

    def compute(at: Any, first: bool, last: bool) -> None:
        def load(pointer: Any, tap: int) -> Any:
            before, over = front - tap, behind - (taps - 1 - tap)
            if first and before > 0:
                return _shift_lanes(emit, emit.load(pointer, 0), -before)
            if last and over > 0:
                return _shift_lanes(emit, emit.load(emit.move(pointer, builder.sub(iw, emit.integer(lanes))), 0), over)
            return emit.load(emit.move(pointer, at), tap - front)

        tile.compute(at, lambda line: sources[line], load)

    end = builder.sub(ow, emit.integer(lanes))
    with builder.if_else(builder.icmp_signed("==", end, emit.integer(0))) as (single, several):
        with single:
            compute(emit.integer(0), True, True)
        with several:
            compute(emit.integer(0), True, False)
            limit = builder.sub(end, emit.integer(behind))

            def along(position: Any, _: Sequence[Any]) -> list[Any]:
                at = builder.select(builder.icmp_signed("<", limit, position), limit, position)
                compute(at, False, False)
                return []

            emit.loop(emit.integer(lanes), builder.add(end, emit.integer(lanes - 1)), lanes, [], along)
            compute(end, False, True)


def _sources(emit: Vectors, x: Any, zeros: Any, top: Any, ih: Any, iw: Any, count: int) -> list[Any]:
    """Return pointers to rows `top` and following of x (ih, iw), and to zeros in place of those outside."""
    found = []
    for line in range(count):
        h = emit.builder.add(top, emit.integer(line))
        inside = emit.builder.icmp_unsigned("<", h, ih)
        found.append(emit.builder.select(inside, emit.move(x, emit.builder.mul(h, iw)), zeros))
    return found


@emitter(f"void(*F,*F,i64,i64,i64,*F,*F,*F,*F,i64,i64,static,{FORM})")
def _rows_by_masks(
    builder: Any,
    x: Any,
    zeros: Any,
    top: Any,
    ih: Any,
    iw: Any,
    w: Any,
    table: Any,
    residual: Any,
    y: Any,
    ow: Any,
    mode: Any,
    rows: int,
    form: PlaneForm,
) -> None:
    """y (rows, ow) of one plane like `_rows_in_place`, for any stride and width: masks leave out what lies beside a row.

    With a stride, two whole vectors of a row hold what the first taps see, and a third one what the others see further. The last
    vector of a row ends with it, and computes again what the one before has too.
    """
    tile = _Rows(Vectors(builder, x.type.pointee, form.lanes), w, table, residual, y, ow, mode, rows, form)
    emit, lanes, across, taps = tile.emit, form.lanes, form.across, form.taps
    sources = _sources(emit, x, zeros, top, ih, iw, (rows - 1) * form.down + form.lines)
    end = builder.sub(ow, emit.integer(lanes))
    end = builder.select(builder.icmp_signed("<", end, emit.integer(0)), emit.integer(0), end)

    def along(position: Any, _: Sequence[Any]) -> list[Any]:
        at = builder.select(builder.icmp_signed("<", end, position), end, position)
        first = builder.sub(emit.mul(at, across), emit.integer(form.front))
        tile.mask = emit.mask(builder.sub(ow, at))
        places = range(taps) if across == 1 else range(0, (lanes - 1) * across + taps, lanes)
        columns = {place: builder.add(first, emit.integer(place)) for place in places}
        masks = {place: emit.mask_between(column, iw) for place, column in columns.items()}
        read: dict[int, list[Any]] = {}

        def load(pointer: Any, tap: int) -> Any:
            if across == 1:
                return emit.load(emit.move(pointer, columns[tap]), 0, masks[tap])
            if id(pointer) not in read:
                read[id(pointer)] = [emit.load(emit.move(pointer, columns[place]), 0, masks[place]) for place in places]
            return _every_second(emit, read[id(pointer)], tap)

        tile.compute(at, lambda line: sources[line], load)
        return []

    emit.loop(emit.integer(0), builder.add(ow, emit.integer(lanes - 1)), lanes, [], along)


def _every_second(emit: Vectors, vectors: Sequence[Any], first: int) -> Any:
    """Return elements first, first + 2, ... of two or three vectors side by side, of which the last has the end of them."""
    lanes, word = emit.lanes, emit.ir.VectorType(emit.ir.IntType(32), emit.lanes)
    phase, moved = first % 2, first // 2
    own = emit.builder.shuffle_vector(vectors[0], vectors[1], emit.ir.Constant(word, list(range(phase, 2 * lanes, 2))))
    if not moved:
        return own
    order = [*range(moved, lanes), *range(lanes + phase, lanes + phase + 2 * moved, 2)]
    return emit.builder.shuffle_vector(own, vectors[2], emit.ir.Constant(word, order))


def _shift_lanes(emit: Vectors, value: Any, count: int) -> Any:
    """Return a vector whose lane i is lane i + count of the value, or zero if it has none."""
    places = [i + count if 0 <= i + count < emit.lanes else emit.lanes + i for i in range(emit.lanes)]
    order = emit.ir.Constant(emit.ir.VectorType(emit.ir.IntType(32), emit.lanes), places)
    return emit.builder.shuffle_vector(value, emit.zero, order)


class _Rows:
    """The register tile: a vector of pixels of some output rows. What they share of the input is loaded once.

    Each line is read after the products of the line before: left free, schedulers read ahead until no register is left.
    """

    def __init__(
        self, emit: Vectors, w: Any, table: Any, residual: Any, y: Any, ow: Any, mode: Any, rows: int, form: PlaneForm
    ) -> None:
        self.emit, self.w, self.table, self.residual, self.y, self.ow, self.mode = emit, w, table, residual, y, ow, mode
        self.rows, self.lines, self.taps, self.down = rows, form.lines, form.taps, form.down
        self.mask: Any = None
        """The columns that are written; None is all."""
        self.weights = [self._read(w, tap) for tap in range(form.lines * form.taps)] if form.held else []

    def _read(self, pointer: Any, number: int) -> Any:
        return self.emit.splat(self.emit.builder.load(self.emit.move(pointer, self.emit.integer(number))))

    def compute(self, at: Any, source: Callable[[int], Any], load: Callable[[Any, int], Any]) -> None:
        """Emit the sums of columns at..at + lanes; load(source(line), tap) is the vector that they see there."""
        emit, sums, factors = self.emit, [self._read(self.table, 2)] * self.rows, self.w
        for line in range((self.rows - 1) * self.down + self.lines):
            seeing = [row for row in range(self.rows) if 0 <= line - row * self.down < self.lines]
            pointer = emit.after(source(line), *sums) if line else source(line)
            for tap in range(self.taps if seeing else 0):
                value = load(pointer, tap)
                for row in seeing:
                    number = (line - row * self.down) * self.taps + tap
                    if not self.weights:
                        factors = emit.after(factors, *sums)
                    weight = self.weights[number] if self.weights else self._read(factors, number)
                    sums[row] = emit.fma(value, weight, sums[row])
        self._finish(at, sums)

    def _finish(self, at: Any, sums: list[Any]) -> None:
        """Add the residual, clip and store."""
        emit = self.emit
        places = [emit.builder.add(emit.mul(self.ow, row), at) for row in range(self.rows)]
        others = [emit.move(self.residual, place) for place in places]
        limits = [self._read(self.table, number) for number in range(2)]
        sums = add_and_clip(emit, sums, self.mode, limits, lambda: [emit.load(x, 0, self.mask) for x in others])
        for value, place in zip(sums, places, strict=True):
            emit.store(value, emit.move(self.y, place), 0, self.mask)
