"""Grids of parameters of one operator, and sets of cases in which all combinations of a few parameters appear."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array

TRIES = 12
"""The random cases from which the one with the most new combinations is taken."""
POOL = 1 << 20
"""Random numbers that all cases share: drawing them takes longer than the operators do."""

Parameters = tuple[Any, ...]


class Case(NamedTuple):
    """One node with its inputs, and how far its outputs may be from onnxruntime's."""

    inputs: list[Array | None]
    attributes: dict[str, Any]
    outputs: Sequence[str]
    """Element types."""
    atol: float | Array
    """The tolerance of the first output; the others are compared more closely."""
    rtol: float = 1e-4
    constants: Sequence[int] = ()
    ends: Sequence[int] = ()
    """The valid rows of caches (B, heads, rows, size), if any are not."""


class Grid(NamedTuple):
    """The values of each parameter. `fits` takes them by name and tells which go together; `make` draws a case of them."""

    values: Mapping[str, Sequence[Any]]
    make: Callable[..., Case]
    fits: Callable[..., bool] = lambda **parameters: True

    def admits(self, parameters: Parameters) -> bool:
        """Return True if the values go together."""
        return self.fits(**dict(zip(self.values, parameters, strict=True)))


def normal(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    """Return normally distributed numbers, from a random place of a pool."""
    pool, size = _pool(dtype), int(np.prod(shape))
    start = int(rng.integers(0, POOL))
    return np.resize(np.roll(pool, -start), size).reshape(shape) if size > POOL else pool[start : start + size].reshape(shape)


@cache
def _pool(dtype: str) -> Array:
    drawn: Array = np.random.default_rng(0).standard_normal(POOL, np.float32).astype(dtype)
    return np.concatenate([drawn, drawn])


def every(grid: Grid) -> Iterator[Parameters]:
    """Yield all parameters that go together."""
    return (one for one in itertools.product(*grid.values.values()) if grid.admits(one))


def covering(grid: Grid, strength: int) -> Iterator[Parameters]:
    """Yield parameters in which all combinations of values of `strength` parameters appear, if they go together at all."""
    sizes = [len(values) for values in grid.values.values()]
    groups = list(itertools.combinations(range(len(sizes)), strength))
    wanted = {(group, at) for group in groups for at in itertools.product(*(range(sizes[k]) for k in group))}
    rng = np.random.default_rng(0)
    for group, at in sorted(wanted):
        if (group, at) not in wanted:
            continue
        found = _fill(grid, sizes, dict(zip(group, at, strict=True)), groups, wanted, rng)
        wanted.discard((group, at))
        if found is not None:
            wanted -= _parts(found, groups)
            yield _take(grid, found)


def _fill(
    grid: Grid,
    sizes: Sequence[int],
    given: Mapping[int, int],
    groups: Sequence[tuple[int, ...]],
    wanted: set[Any],
    rng: np.random.Generator,
) -> list[int] | None:
    """Return indices of values, with the given ones and many wanted combinations; None if nothing goes with the given ones."""
    best, most, fitting = None, -1, 0
    for _ in range(400):
        row = [given.get(k, int(rng.integers(0, n))) for k, n in enumerate(sizes)]
        if not grid.admits(_take(grid, row)):
            continue
        fitting += 1
        if (new := len(wanted & _parts(row, groups))) > most:
            best, most = row, new
        if fitting == TRIES:
            break
    return best


def _parts(row: Sequence[int], groups: Sequence[tuple[int, ...]]) -> set[Any]:
    return {(group, tuple([row[k] for k in group])) for group in groups}


def _take(grid: Grid, row: Sequence[int]) -> Parameters:
    return tuple([values[k] for k, values in zip(row, grid.values.values(), strict=True)])
