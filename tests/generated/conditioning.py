"""Conditioning: how far results move when every float of a model moves by units in the last place.

Inputs alone do not show it. A model may compute a + b - a, where moving `a` moves both terms alike, while the rounding of the sum
does not. So feeds, constants and the result of every node that rounds move, each element up or down at random, as roundings would
move them in another order of additions, in a fused loop or with another polynomial. A difference to an oracle is explained if,
element by element, some of the trials moved as far. Steps (Round, Floor, comparisons, ArgMax, what a condition selects, a count of
elements) need no rule of their own: where a result is a tie, trials fall on both sides; where it is none, they do not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ort_lite.dtypes import Array, from_numpy
from tests.generated.comparison import EPSILON, Mismatch, mismatches, wide
from tests.generated.noise import NoisySession
from tests.generated.oracles import of_reference
from tests.generated.ports.registry import moved_steps

TRIALS = (1, 1, 1, 1, 4, 4, 4, 4)
"""Units in the last place that each trial moves by. Kernels of transcendental functions are up to 4 off."""
FACTOR = 4.0
"""A difference may be this much larger than the largest movement of the trials."""


class Conditioning:
    """The movement of the outputs of a model with some feeds, measured when it is first asked for."""

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
        self._model, self._feeds = model, feeds
        self._runs: tuple[list[Any], list[list[Any]]] | None = None
        self.failure = ""
        """Why there are no trials."""

    def explains(self, mismatch: Mismatch) -> bool:
        """Return True if the trials moved as far as the two results are apart."""
        if self._runs is None and not self.failure:
            try:
                self._runs = self._measure()
            except Exception as error:  # noqa: BLE001  no explanation, and a reason to look at
                self.failure = f"{type(error).__name__}: {error}"
        if self._runs is None:
            return False
        base, trials = self._runs
        if mismatch.where is None:
            return any(_changes_form(base, trial, mismatch.path) for trial in trials)
        still = _at(base, mismatch.path)
        moved = [_at(trial, mismatch.path) for trial in trials]
        if any(not isinstance(one, np.ndarray) or one.shape != mismatch.where.shape for one in (still, *moved)):
            return any(_changes_form(base, trial, mismatch.path) for trial in trials)
        return bool(np.all(_explained(mismatch.got, mismatch.expected, still, moved)[mismatch.where]))

    def _measure(self) -> tuple[list[Any], list[list[Any]]]:
        """The outputs of the model as it is, and those of the trials."""
        session = NoisySession(self._model)
        return session.run(self._feeds, 0), [session.run(self._feeds, units) for units in TRIALS]


class InnerConditioning(Conditioning):
    """The movement of the outputs of a node when the steps inside of it move, which movements of its inputs do not show.

    1 - update of a GRU cancels where the update is nearly 1, and what bounds that moves with no input. A scale moves all
    numbers that it multiplies alike.
    """

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, Any], dtype: str) -> None:
        """`dtype` is the element type in which the node computes."""
        super().__init__(model, feeds)
        self._unit, self._random = EPSILON[dtype], np.random.default_rng(0)

    def _measure(self) -> tuple[list[Any], list[list[Any]]]:
        return self._run(0), [self._run(units) for units in TRIALS]

    def _run(self, units: int) -> list[Any]:
        def move(x: Array) -> Array:
            return np.asarray(x * (1 + units * self._unit * (self._random.integers(0, 2, x.shape) * 2 - 1)))

        with moved_steps(move):
            found = of_reference(self._model, self._feeds)
        if isinstance(found, str):
            raise NotImplementedError(found)
        return found


def _changes_form(base: Sequence[Any], trial: Sequence[Any], path: tuple[Any, ...]) -> bool:
    """Return True if the output has another length, type or shape in the trial."""
    found = mismatches(_at(trial, path[:1]), _at(base, path[:1]), path[:1])
    return any(one.where is None for one in found)


def _explained(got: Array, expected: Array, still: Array, moved: Sequence[Array]) -> Array:
    """Mark the elements of which trials moved as far as `got` and `expected` are apart."""
    dtype = from_numpy(got.dtype)
    if dtype == "string" or dtype == "bool":
        return np.asarray(np.any([one != still for one in moved], axis=0))
    with np.errstate(all="ignore"):
        centre = wide(still)
        movement = np.max([_distance(wide(one), centre) for one in moved], axis=0)
        differ = got != expected if got.dtype.kind in "iu" else False  # float64 has fewer digits than integers of 64 bits
        apart = np.maximum(_distance(wide(got), wide(expected)), differ)
        unit = np.abs(centre) * EPSILON.get(dtype, 0.0)
        found: Array = apart <= FACTOR * np.fmax(movement, np.where(np.isfinite(unit), unit, 0.0))
    return found


def _distance(one: Array, other: Array) -> Array:
    """|one - other|, 0 for equal infinities and two NaN, infinity where only one is finite."""
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    finite = np.isfinite(one) & np.isfinite(other)
    return np.where(same, 0.0, np.where(finite, np.abs(one - other), np.inf))


def _at(outputs: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        try:
            outputs = outputs[key]
        except (KeyError, IndexError, TypeError):
            return None
    return outputs
