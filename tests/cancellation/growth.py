"""Small cases of operators, made so large that a run takes a while: along one size, in all of them, or by an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from tests.cancellation.registrations import Registration, registration_of
from tests.conformance.versions.models import FIXED, OPEN
from tests.fuzz.drafts import At, Draft
from tests.fuzz.seeds import Seed, seeds

EVERYTHING = "all sizes"
MOST_BYTES = 600 << 20
"""Of the inputs of a run."""
_STEERING = ("axis", "axes", "perm", "dtype", "to", "mode", "opset", "seed", "direction", "format", "type", "version", "layout")
"""Parts of the names of attributes whose numbers are no amounts."""


class Way(NamedTuple):
    """How a case grows: `what` is a size, an attribute's name, EVERYTHING, or "input 0" for all sizes of one input.

    Numbers in attributes and contents that are equal to a size that grows may grow too.
    """

    what: int | str
    attributes: bool
    contents: bool

    def __str__(self) -> str:
        what = f"sizes of {self.what}" if isinstance(self.what, int) else str(self.what)
        return what + " and attributes" * self.attributes


@cache
def cases() -> dict[Registration, list[Seed]]:
    """The cases of each registration at the operator's newest version, those in their own types and with most elements first."""
    found: dict[Registration, list[Seed]] = {}
    newest = {key[:2]: key for key in sorted(seeds())}
    for key, own in seeds().items():
        if key == newest[key[:2]]:
            for seed in own:
                found.setdefault(registration_of(_draft(seed)), []).append(seed)
    return {one: sorted(own, key=lambda seed: (seed.dtype is not None, -_draft(seed).size())) for one, own in found.items()}


def _draft(seed: Seed) -> Draft:
    case, inputs = seed.case, list(seed.inputs())
    named = [isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.int64 for value in inputs]
    dims = [FIXED if one else OPEN for one in named]  # models know how many axes they name
    return Draft(seed.key, inputs, dict(case.attributes), list(case.outputs), list(case.constants), seed.key[2], dims)


def ways(seed: Seed) -> Iterator[Way]:
    """Those that may stress the case, the likeliest first."""
    draft = _draft(seed)
    sizes = [size for size in draft.sizes() if size > 1]
    yield Way(EVERYTHING, True, True)
    for size in sorted(sizes, reverse=True):
        yield from (Way(size, attributes, contents) for attributes, contents in ((False, True), (True, True), (False, False)))
    yield Way(EVERYTHING, False, True)
    yield from (Way(name, True, False) for name, value in draft.attributes.items() if _amounts(name, value))
    yield from (Way(f"input {k}", False, False) for k in dict.fromkeys(k for (k, _), _ in draft.arrays()))


def grown(seed: Seed, way: Way, factor: int) -> Draft | None:
    """The case, so many times as large. None: it would be larger than MOST_BYTES."""
    draft = _draft(seed)
    everything = way.what == EVERYTHING

    def larger(size: int) -> int:
        return size * factor if (size > 1 if everything else size == way.what) else size

    def own(at: At) -> Callable[[int], int]:
        """How sizes of one input grow."""
        return (lambda size: size * factor if size > 1 else size) if f"input {at[0]}" == way.what else larger

    arrays = list(draft.arrays())
    if sum(array.itemsize * np.prod([float(own(at)(n)) for n in array.shape]) for at, array in arrays) > MOST_BYTES:
        return None
    for at, array in arrays:
        draft.put(at, _larger(array, own(at), way.contents))
    for name, value in draft.attributes.items():
        if _amounts(name, value) and way.attributes and (isinstance(way.what, int) or everything or name == way.what):
            draft.attributes[name] = _scale(value, (lambda n: n * factor) if name == way.what else larger)
    return draft


def _larger(array: Array, larger: Callable[[int], int], contents: bool) -> Array:
    for axis, size in enumerate(array.shape):
        if larger(size) != size:
            array = np.take(array, np.arange(larger(size)) % size, axis)
    if contents and array.dtype == np.int64 and 0 < array.size <= 16 and array.ndim <= 1:
        array = np.array([larger(n) if n > 1 else n for n in array.reshape(-1).tolist()], np.int64).reshape(array.shape)
    return array


def _amounts(name: str, value: Any) -> bool:
    if any(part in name for part in _STEERING):
        return False
    numbers = value if isinstance(value, list | tuple) else [value]
    return bool(numbers) and all(type(number) is int for number in numbers) and any(number > 0 for number in numbers)


def _scale(value: Any, larger: Callable[[int], int]) -> Any:
    if isinstance(value, list | tuple):
        return [min(larger(number), 2**31) for number in value]
    return min(larger(value), 2**31)


def shapes(draft: Draft) -> str:
    """The shapes of the inputs, for a table."""
    return ", ".join("x".join(map(str, array.shape)) or "scalar" for _, array in draft.arrays())
