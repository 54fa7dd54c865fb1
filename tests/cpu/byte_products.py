"""Products of bytes, called as native code in guarded memory, and what they must be: sums in float64, which are exact."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite.native.cpu import Target, host, parse_target
from ort_lite_cpu.kernels.gemm.byte_dots import dot_gemm
from ort_lite_cpu.kernels.gemm.byte_tile import BLOCK, DotTile, column_terms, dot_tile, quads
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
    """Return what the kernel makes of a (m, k) or (batch, m, k), bytes, with one zero point or one a row.

    All operands end where memory ends; a ends `gap` bytes before.
    """
    step = step or Step()
    m, k = a.shape[-2:]
    points = np.atleast_1d(np.asarray(zero, a.dtype))
    batch, own = max(right.batch, a.size // max(m * k, 1)), a.shape[:-2] not in ((), (1,))
    steps, shape = [m * k * own, int(right.batch > 1)], (batch, m, right.n) if batch > 1 else (m, right.n)
    given: list[Any] = [batch, m, right.n, k, *steps, int(points.size > 1), int(right.zeros), FLIPS[a.dtype.name]]
    put: Callable[[str, Array | None], Array | None] = lambda name, x: None if x is None else _memory(name).put(x)  # noqa: E731
    c = _memory("c").put(np.full(shape, 77, dtype_of(step.form)))
    left = _memory("a").put(a.view(np.uint8), gap)
    operands = [left, put("zero", points.view(np.uint8)), put("b", right.panels), put("columns", right.columns)]
    tile = dot_tile(target, a.dtype.name)
    if tile is None:
        spec, size = pairs_spec(right.panels.dtype.name, target), scratch_size(m, 2 * -(-k // 2), integer_tile(target).rows)
        kind, more, scalars = "int16", [], [*given, size]
    else:
        spec, size = quads_spec(step.form, tile), scratch_size(m, 4 * tile.depth(k), tile.rows, BLOCK)
        kind, more = "uint8", [put("factors", step.factors), put("bias", step.bias)]
        scalars = [*given, size, int(step.factors is not None and step.factors.size > 1), step.zero]
    assert isinstance(size, int)
    scratch = _memory("scratch").put(np.empty((parts, size), kind))
    operands += [*more, c, scratch]
    for part in range(parts):
        assert call(spec, operands, scalars, part, parts, target) == 0
    assert _memory("c").is_whole(c) and _memory("scratch").is_whole(scratch)
    return c


@cache
def pairs_spec(kind: str, target: Target) -> Spec:
    """Return the kernel of pairs for panels of int8 or int16."""
    return Spec(
        integer_gemm, ("u8", "u8", {"int8": "i8", "int16": "i16"}[kind], "i32", "i32", "i16"), integer_tile(target).statics
    )


@cache
def quads_spec(form: int, tile: DotTile) -> Spec:
    """Return the kernel of quads whose result has this form."""
    return Spec(dot_gemm, ("u8", "u8", "i8", "i32", "f32", "f32", RESULTS[form], "u8"), {"tile": tile, "out.form": form})


class Sweep:
    """Products of matrices with up to 130 rows, columns and values of k, whose exact sums are computed once for each k."""

    def __init__(self, left: str) -> None:
        self.a, self.b = bytes_of(130, 130, dtype=left), bytes_of(130, 130, seed=1, dtype="int8")
        self.draw = np.random.default_rng(2)
        self.of_k = cache(lambda k: self.a[:, :k].astype(np.float64) @ self.b[:k].astype(np.float64))

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
        totals, sums = self.of_k(k)[:, :n], self.b[:k, :n].sum(0, dtype=np.float64)
        for m in rows:
            zero = int(self.a[m - 1, n - 1])
            got = product(self.a[:m, :k], right, target, zero, gap=(m + n) % 3)
            if not np.array_equal(got, totals[:m] - zero * sums):
                raise AssertionError(f"({m}, {k}) @ ({k}, {n}), zero point {zero}: {got - (totals[:m] - zero * sums)}")
