"""Products of bytes, called as native code in guarded memory, and what they must be: sums in float64, which are exact."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host, parse_target
from ort_lite_cpu.kernels.gemm.byte_dots import column_starts, dot_gemm, subtract_zeros
from ort_lite_cpu.kernels.gemm.byte_tile import DotTile, column_terms, dot_tile, quads, scratch_bytes
from ort_lite_cpu.kernels.gemm.integer import FLIPS, integer_gemm, integer_tile, pairs, scratch_size
from ort_lite_cpu.kernels.gemm.integer_epilogue import BIASED_FLOATS, FLOATS, SIGNED_BYTES, SUMS, UNSIGNED_BYTES
from tests.native.calls import call
from tests.native.guarded import Guarded

NAMES = ("x86-64-v4+avx512vnni+amx", "x86-64-v4+avx512vnni", "x86-64-v3+avxvnni", "armv8.2-a+dotprod")
DOTS = {name: parse_target(name) for name in NAMES}
"""One for each width and kind of instruction."""
HERE = {name: target for name, target in DOTS.items() if target.runs_on(host())}
PAIRS = {
    name: parse_target(name) for name in ("x86-64-v4", "x86-64-v3", "x86-64", "aarch64") if parse_target(name).runs_on(host())
}
"""Targets that run here and have no instruction for bytes."""
RESULTS = {SUMS: "i32", FLOATS: "f32", BIASED_FLOATS: "f32", UNSIGNED_BYTES: "u8", SIGNED_BYTES: "i8"}
"""The element type of a result by its form."""
SIGNS = ("uint8", "int8")
ZEROS = Spec(subtract_zeros, ("u8", "u8", "i32", "i32"))


class Step(NamedTuple):
    """The last step of a product: its form, its factors (1,) or (n,), its bias (n,) and the zero point of bytes."""

    form: int = SUMS
    factors: Array | None = None
    bias: Array | None = None
    zero: float = 0.0


class Right(NamedTuple):
    """A right operand (batch, k, n), int8, as kernels read it: panels, and the terms or the zero points of its columns."""

    panels: Array
    columns: Array | None
    zeros: bool
    batch: int
    n: int


def bytes_of(*shape: int, seed: int = 0, dtype: str = "uint8") -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8).view(dtype)


def tile_of(target: Target, left: str = "uint8") -> DotTile:
    tile = dot_tile(target, left)
    assert tile is not None
    return tile


def dtype_of(form: int) -> "np.dtype[Any]":
    """Return NumPy's type of the elements of a result."""
    kind, bits = RESULTS[form][0], int(RESULTS[form][1:])
    return np.dtype(f"{kind}{bits // 8}")


def wrap(total: Array | float) -> Array:
    """Return exact sums modulo 2 ** 32."""
    return np.asarray(total).astype(np.int64).astype(np.int32)


def exact(a: Array, b: Array, zero: Array | int = 0, zeros: Array | int = 0) -> Array:
    """Return (a - zero) @ (b - zeros), a zero point for all, each row of a or each column of b."""
    return wrap((a.astype(np.float64) - np.reshape(zero, (-1, 1))) @ (b.astype(np.float64) - zeros))


@cache
def _memory(name: str) -> Guarded:
    return Guarded(1 << 23)


def pack(b: Array, target: Target, zeros: Array | None = None, addends: Array | None = None) -> Right:
    """Return b (k, n) or (batch, k, n), int8, as the target's kernel reads it. Only quads have addends."""
    batch, n = (1 if b.ndim == 2 else len(b)), b.shape[-1]
    tile = dot_tile(target)
    if tile is None:
        return Right(pairs(b, integer_tile(target).columns), zeros, zeros is not None, batch, n)
    terms = column_terms(wrap(b.sum(-2, dtype=np.int64)), tile, addends, zeros)
    return Right(quads(b, tile), terms, zeros is not None, batch, n)


def product(
    a: Array, right: Right, target: Target, zero: Array | int = 0, step: Step | None = None, parts: int = 1, gap: int = 0
) -> Array:
    """Return what the target's kernels make of a (m, k) or (batch, m, k), bytes, with one zero point or one a row.

    All operands end where memory ends; a ends `gap` bytes before.
    """
    step, (m, k), n = step or Step(), a.shape[-2:], right.n
    batch, own = max(right.batch, a.size // max(m * k, 1)), a.shape[:-2] not in ((), (1,))
    points = _put("zero", np.atleast_1d(np.asarray(zero, a.dtype)).view(np.uint8))
    left, shape = _memory("a").put(a.view(np.uint8), gap), (batch, m, n) if batch > 1 else (m, n)
    c = _memory("c").put(np.full(shape, 77, dtype_of(step.form)))
    given = [batch, m, n, k, m * k * own, int(right.batch > 1), int(points.size > 1), int(right.zeros), FLIPS[a.dtype.name]]
    run = _run_pairs if dot_tile(target) is None else _run_quads
    run(target, [left, points, c], right, given, step, parts)
    assert _memory("c").is_whole() and _memory("scratch").is_whole()
    return c


def _put(name: str, x: Array) -> Array:
    return _memory(name).put(x)


def _run_pairs(target: Target, operands: list[Array], right: Right, given: list[int], step: Step, parts: int) -> None:
    """Run the kernel of pairs, which has no last step."""
    (left, points, c), (_, m, _, k, *_) = operands, given
    size = scratch_size(m, 2 * -(-k // 2), integer_tile(target).rows)
    assert isinstance(size, int) and step.form == SUMS
    zeros = None if right.columns is None else _put("columns", right.columns)
    all_of_them = [left, points, _put("b", right.panels), zeros, c, _memory("scratch").room((parts, size), np.int16)]
    _call(pairs_spec(right.panels.dtype.name, target), all_of_them, [*given, size], parts, target)


def _run_quads(target: Target, operands: list[Array], right: Right, given: list[int], step: Step, parts: int) -> None:
    """Run the kernels of quads: the starts of columns, the product, and zero points of rows and columns."""
    (left, points, c), (_, m, _, k, *_, zero_row, zero_columns, flip) = operands, given
    tile = dot_tile(target, "int8" if flip else "uint8")
    assert tile is not None and right.columns is not None
    size = scratch_bytes(m, k, tile)
    assert isinstance(size, int)
    terms, line = _put("columns", right.columns), right.columns.shape[-1]
    starts = _memory("starts").room((2, right.batch, line), np.int32)
    begin = [terms, None if zero_row else points, starts]
    _call(starts_spec(tile.middle), begin, [right.batch, line, flip], parts, target)
    more = [None if x is None else _put(name, x) for name, x in (("factors", step.factors), ("bias", step.bias))]
    scratch = _memory("scratch").room((parts, size), np.uint8)
    scalars = [*given, size, int(step.factors is not None and step.factors.size > 1), step.zero]
    panels = _put("b", right.panels)
    _call(quads_spec(step.form, tile), [left, panels, _put("first", starts[0]), *more, c, scratch], scalars, parts, target)
    if zero_row or zero_columns:
        _call(ZEROS, [left, points, terms, c], [*given, size, line], parts, target)


def _call(spec: Spec, operands: Sequence[Array | None], scalars: Sequence[float], parts: int, target: Target) -> None:
    for part in range(parts):
        assert call(spec, operands, scalars, part, parts, target) == 0


@cache
def pairs_spec(kind: str, target: Target) -> Spec:
    """Return the kernel of pairs for panels of int8 or int16."""
    return Spec(
        integer_gemm, ("u8", "u8", {"int8": "i8", "int16": "i16"}[kind], "i32", "i32", "i16"), integer_tile(target).statics
    )


@cache
def starts_spec(middle: int) -> Spec:
    """Return the kernel that computes what the sums of columns start from."""
    return Spec(column_starts, ("i32", "u8", "i32"), {"middle": middle})


@cache
def quads_spec(form: int, tile: DotTile) -> Spec:
    """Return the kernel of quads whose result has this form."""
    return Spec(dot_gemm, ("u8", "i8", "i32", "f32", "f32", RESULTS[form], "u8"), {"tile": tile, "out.form": form})


class Sweep:
    """Products of matrices with up to 130 rows, columns and values of k, whose exact sums are computed once."""

    def __init__(self, left: str) -> None:
        self.a, self.b = bytes_of(130, 130, dtype=left), bytes_of(130, 130, seed=1, dtype="int8")
        self.draw = np.random.default_rng(2)
        terms = self.a.T[:, :, None].astype(np.float64) * self.b[:, None].astype(np.float64)
        self.totals = np.cumsum(terms, 0)  # of k values of k: number k - 1

    def sizes(self) -> list[int]:
        """Return 1, 17, 64 and a drawn size."""
        return [1, 17, 64, int(self.draw.integers(1, 131))]

    def check(self, target: Target) -> None:
        """Require exact sums while each dimension takes 1 to 130 and the others a few sizes."""
        every = range(1, 131)
        for k in self.sizes():
            for n in self.sizes():
                self._rows(every, k, n, target)
        for size in every:
            for other in self.sizes():
                self._rows(self.sizes(), size, other, target)
                self._rows(self.sizes(), other, size, target)

    def _rows(self, rows: "range | list[int]", k: int, n: int, target: Target) -> None:
        right = pack(self.b[:k, :n], target)
        totals, sums = self.totals[k - 1, :, :n], self.b[:k, :n].sum(0, dtype=np.float64)
        for m in rows:
            zero = int(self.a[m - 1, n - 1])
            got = product(self.a[:m, :k], right, target, zero, gap=(m + n) % 3)
            if not np.array_equal(got, totals[:m] - zero * sums):
                raise AssertionError(f"({m}, {k}) @ ({k}, {n}), zero point {zero}: {got - (totals[:m] - zero * sums)}")
