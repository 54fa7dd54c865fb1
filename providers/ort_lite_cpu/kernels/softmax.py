"""Softmax of rows of float32, in vectors.

Rows are often as short as a vector or two, where a loop that LLVM vectorizes would take most elements one by one.

A row is passed three times: its largest number, exponentials and their sum, the quotient. The middle pass keeps multipliers busy, the
others only memory, and each waits for the last sum of the one before. So short rows go through one loop, three rows at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from ort_lite.native.cpu import Target
from ort_lite.native.lang import emitter, log
from ort_lite.native.marks import Emitted
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.vectors import Vectors

SHORT = 2048
"""Numbers of a row up to which three of them, and what is written, are in the first cache level."""
LEAST = -87.33654
"""The least number whose exp is a normal number of float32."""
_MAGIC = 12582912.0 + 127.0
"""A number that, added, leaves the nearest integer in the low bits, with the bias of an exponent."""
_LN2, _LN2_IN_TWO = 0.693147182464599609375, (0.693359375, -2.12194440e-4)
_POWERS = (1.38189394e-3, 8.36870354e-3, 4.16682884e-2, 1.66665211e-1, 0.49999994, 1.0, 1.0)
"""e**r for |r| <= ln(2) / 2, a minimax fit (error 4e-9), highest power first."""
_LOWEST = float("-inf")
QUICK = 4
"""Vectors of a round that only compares, multiplies or subtracts: no result waits for the one before."""

_LOG = cast(Emitted, log).emitter
Body = Callable[[Any, Sequence[Any], int, Any], list[Any]]


def vectors_for(native: str, target: Target) -> dict[str, Any]:
    """Return the Statics. lanes: of a vector; 0: not in vectors, since float64 takes the C library's exp.

    chains: vectors of a round of exponentials, whose constants take registers, unless instructions read and spread them.
    fused: whether products are.
    """
    chains = 4 if target.has("avx512f") else 2 if target.vector_registers == 32 else 1
    return {"lanes": tile_for("f32", target).lanes if native == "f32" else 0, "chains": chains, "fused": target.has_fma}


@emitter("void(*f32,*f32,i64,i64,i64,static,static,static,static)")
def softmax_rows(
    builder: Any, x: Any, y: Any, first: Any, last: Any, n: Any, logarithm: bool, lanes: int, chains: int, fused: bool
) -> None:
    """y (., n) = the softmax of rows [first, last), at least one, of x, or its logarithm; y may be x.

    While one row gets its exponentials, the one before is divided by their sum, and the largest of the one after is searched for.
    At the ends the nearest row stands in for a missing one.
    """
    emit = Vectors(builder, x.type.pointee, lanes)
    end = builder.sub(last, emit.integer(1))

    def row_of(pointer: Any, number: Any) -> Any:
        number = builder.select(builder.icmp_signed("<", number, end), number, end)
        number = builder.select(builder.icmp_signed(">", number, first), number, first)
        return emit.move(pointer, builder.mul(number, n))

    def search(row: Any, tops: Sequence[Any]) -> list[Any]:
        return [tops[1], _highest(emit, row_of(x, row), n)]

    def advance(row: Any, carried: Sequence[Any]) -> list[Any]:
        top, following, change = carried
        before, after = builder.sub(row, emit.integer(1)), builder.add(row, emit.integer(2))
        source, unseen, done = row_of(x, row), row_of(x, after), row_of(y, before)
        given, out = row_of(x if logarithm else y, before), None if logarithm else row_of(y, row)
        most, changes = emit.splat(top), emit.splat(change)

        def body(at: Any, values: Sequence[Any], count: int, mask: Any) -> list[Any]:
            loaded = _read(emit, source, at, count, mask)  # first of all: in place, a stand-in's result lies here
            _change(emit, given, done, at, count, mask, changes, logarithm)
            sums = _add(emit, loaded, out, most, at, values[:chains], mask, fused)
            return sums + _raise(emit, unseen, at, values[chains:], count, mask)

        values = _loop_over(emit, n, [emit.zero] * chains + [emit.constant(_LOWEST)] * chains, body, chains)
        _clear(emit, done, n, change)
        total = _reduce_lanes(emit, values[:chains], emit.add)
        return [following, _reduce_lanes(emit, values[chains:], _larger(emit)), _factor(emit, top, total, logarithm)]

    none = emit.ir.Constant(emit.element, 0.0)
    _, tops = emit.loop(first, builder.add(first, emit.integer(2)), 1, [none, none], search)
    _, (_, _, change) = emit.loop(first, last, 1, [*tops, none], advance)
    _finish(emit, row_of(x if logarithm else y, end), row_of(y, end), n, change, logarithm)


@emitter("void(*f32,*f32,i64,static,static,static,static)")
def softmax_row(builder: Any, x: Any, y: Any, n: Any, logarithm: bool, lanes: int, chains: int, fused: bool) -> None:
    """y[:n] = the softmax of one row of any length, pass by pass; it may be x."""
    emit = Vectors(builder, x.type.pointee, lanes)
    top = _highest(emit, x, n)
    total = _sum(emit, x, None if logarithm else y, n, top, chains, fused)
    _finish(emit, x if logarithm else y, y, n, _factor(emit, top, total, logarithm), logarithm)


def _highest(emit: Vectors, x: Any, n: Any) -> Any:
    """Return the largest of x[:n] that are not NaN, or -inf."""

    def body(at: Any, tops: Sequence[Any], count: int, mask: Any) -> list[Any]:
        return _raise(emit, x, at, tops, count, mask)

    return _reduce_lanes(emit, _loop_over(emit, n, [emit.constant(_LOWEST)] * QUICK, body, QUICK), _larger(emit))


def _sum(emit: Vectors, x: Any, y: Any, n: Any, top: Any, chains: int, fused: bool) -> Any:
    """y[:n] = exp(x[:n] - top), no x above top; returns their sum. Without y they are only summed."""
    most = emit.splat(top)

    def body(at: Any, sums: Sequence[Any], count: int, mask: Any) -> list[Any]:
        return _add(emit, _read(emit, x, at, count, mask), y, most, at, sums, mask, fused)

    return _reduce_lanes(emit, _loop_over(emit, n, [emit.zero] * chains, body, chains), emit.add)


def _finish(emit: Vectors, given: Any, y: Any, n: Any, change: Any, logarithm: bool) -> None:
    """y[:n] = given[:n] * change, or given[:n] - change."""
    changes = emit.splat(change)

    def body(at: Any, values: Sequence[Any], count: int, mask: Any) -> list[Any]:
        _change(emit, given, y, at, count, mask, changes, logarithm)
        return list(values)

    _loop_over(emit, n, [], body, QUICK)
    _clear(emit, y, n, change)


def _clear(emit: Vectors, y: Any, n: Any, change: Any) -> None:
    """y[:n] = NaN, if change is: of two NaN that meet the compiler's order says which is left, and it differs from loop to loop."""

    def body(at: Any, values: Sequence[Any], count: int, mask: Any) -> list[Any]:
        _write(emit, [emit.constant(float("nan"))] * count, y, at, mask)
        return list(values)

    with emit.builder.if_then(emit.builder.fcmp_unordered("uno", change, change), likely=False):
        _loop_over(emit, n, [], body, 1)


def _factor(emit: Vectors, top: Any, total: Any, logarithm: bool) -> Any:
    """Return the scalar by which exponentials are multiplied, or numbers are lowered."""
    if logarithm:
        from ort_lite.native.values import LlvmValue  # LLVM's values, which a run with compiled kernels does without

        return emit.builder.fadd(top, _LOG(LlvmValue(emit.builder, total, "f32")).raw)
    return emit.builder.fdiv(emit.ir.Constant(emit.element, 1.0), total)


def _read(emit: Vectors, x: Any, at: Any, count: int, mask: Any) -> list[Any]:
    return [emit.load(emit.move(x, at), k * emit.lanes, mask) for k in range(count)]


def _write(emit: Vectors, values: Sequence[Any], y: Any, at: Any, mask: Any) -> None:
    for k, value in enumerate(values):
        emit.store(value, emit.move(y, at), k * emit.lanes, mask)


def _change(emit: Vectors, given: Any, y: Any, at: Any, count: int, mask: Any, changes: Any, logarithm: bool) -> None:
    change = emit.builder.fsub if logarithm else emit.builder.fmul
    _write(emit, [change(value, changes) for value in _read(emit, given, at, count, mask)], y, at, mask)


def _raise(emit: Vectors, x: Any, at: Any, tops: Sequence[Any], count: int, mask: Any) -> list[Any]:
    """Return the first `count` of tops, raised to what lies at x."""
    values = _read(emit, x, at, count, mask)
    if mask is not None:
        values = [emit.builder.select(mask, value, emit.constant(_LOWEST)) for value in values]
    return [_larger(emit)(value, top) for value, top in zip(values, tops, strict=False)] + list(tops[count:])


def _add(
    emit: Vectors, loaded: Sequence[Any], y: Any, most: Any, at: Any, sums: Sequence[Any], mask: Any, fused: bool
) -> list[Any]:
    """y = exp(loaded - most); returns the first sums with these added."""
    values = [_exponential(emit, emit.sub(value, most), fused) for value in loaded]
    if mask is not None:
        values = [emit.builder.select(mask, value, emit.zero) for value in values]
    if y is not None:
        _write(emit, values, y, at, mask)
    return emit.add_all(values, sums[: len(values)]) + list(sums[len(values) :])


def _larger(emit: Vectors) -> Callable[[Any, Any], Any]:
    """Return the larger of a and b; b if either is NaN, which the exponential finds again."""
    builder = emit.builder
    return lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _exponential(emit: Vectors, t: Any, fused: bool) -> Any:
    """Return e**t, t <= 0, within 2 ulp; NaN for NaN; 0 below 2**-126, so that no subnormal slows a row down twenty times.

    Where products are not rounded before they are added, what float32 lacks of ln 2 (2e-9) is all that r loses, less than the
    difference t was rounded by; else that rest is subtracted too.
    """
    builder, magic = emit.builder, emit.constant(_MAGIC)
    shifted = emit.fma(t, emit.constant(1.44269504), magic)
    whole, r = emit.sub(shifted, magic), t
    for part in (_LN2,) if fused else _LN2_IN_TWO:
        r = emit.fma(whole, emit.constant(-part), r)
    power = emit.constant(_POWERS[0])
    for factor in _POWERS[1:]:
        power = emit.fma(power, r, emit.constant(factor))
    kind = emit.ir.VectorType(emit.ir.IntType(32), emit.lanes)
    exponent = builder.shl(builder.bitcast(shifted, kind), emit.ir.Constant(kind, [23] * emit.lanes))
    e = builder.fmul(power, builder.bitcast(exponent, emit.type))
    return builder.select(builder.fcmp_ordered("<", t, emit.constant(LEAST)), emit.zero, e)


def _loop_over(emit: Vectors, n: Any, values: Sequence[Any], body: Body, chains: int) -> list[Any]:
    """values = body(at, values, vectors, mask) for rounds of `chains` vectors, then of one, then the lanes that are left."""
    at, carried = emit.integer(0), list(values)
    if chains > 1:
        at, carried = emit.loop(at, n, chains * emit.lanes, carried, lambda at, own: body(at, own, chains, None))
    at, carried = emit.loop(at, n, emit.lanes, carried, lambda at, own: body(at, own, 1, None))
    rest = emit.builder.sub(n, at)
    more = emit.builder.icmp_signed(">", rest, emit.integer(0))
    return emit.when(more, carried, lambda own: body(at, own, 1, emit.mask(rest)))


def _reduce_lanes(emit: Vectors, parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Return all lanes of all parts as one number, in a fixed order."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [join(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    whole, lanes, number = parts[0], emit.lanes, emit.ir.IntType(32)
    while lanes > 1:
        lanes //= 2
        kind = emit.ir.VectorType(number, lanes)
        low, high = (emit.ir.Constant(kind, list(range(start, start + lanes))) for start in (0, lanes))
        shuffle = emit.builder.shuffle_vector
        whole = join(shuffle(whole, whole, low), shuffle(whole, whole, high))
    return emit.builder.extract_element(whole, emit.ir.Constant(number, 0))
