"""What onnx.reference says of a mutant, where it runs it in time; and whether two results are the same."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ort_lite.dtypes import Array

PATIENCE_S = 1.0
"""Nothing that a mutant asks takes the reference longer, but for loops that do not end."""
TOLERANCES = {"float64": 1e-6, "complex128": 1e-6, "float32": 2e-3, "complex64": 2e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Relative, and a tenth of it absolute: mutants may lose digits by cancellation. Narrower floats: a step or two."""
NARROW = 0.3


class TooSlow(Exception):
    """The reference had its time."""


def expected(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any] | str:
    """The outputs of onnx.reference, or why there are none."""
    try:
        with within(PATIENCE_S, _give_up), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return list(ReferenceEvaluator(model).run(None, dict(feeds)))
    except Exception as error:  # noqa: BLE001  whatever it raises, it has no answer
        return f"{type(error).__name__}: {error}"


def second_opinion(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any] | str:
    """What onnxruntime computes, or why it does not: where a person has to decide who is wrong."""
    import onnxruntime

    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.ir_version = min(model.ir_version, 10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(other.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))
    except Exception as error:  # noqa: BLE001  whatever it raises, it has no answer
        return f"{type(error).__name__}: {error}"


def _give_up() -> None:
    raise TooSlow


@contextmanager
def within(seconds: float, late: Callable[[], None]) -> Iterator[None]:
    """Calls `late` between two lines of Python of what takes longer. In a main thread, one within no other."""
    before = signal.signal(signal.SIGALRM, lambda signum, frame: late())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def difference(got: Any, want: Any, what: str = "outputs") -> str:
    """Nothing where the two are the same: structure, element types, shapes, values within the tolerance of the type."""
    if isinstance(want, (list, tuple)) or isinstance(got, list):
        if not isinstance(got, (list, tuple)) or not isinstance(want, (list, tuple)) or len(got) != len(want):
            return f"{what}: {got!r:.100}, expected {want!r:.100}"
        return next(
            (told for k, pair in enumerate(zip(got, want, strict=True)) if (told := difference(*pair, f"{what}[{k}]"))), ""
        )
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(got) != list(want):
            return f"{what}: {got!r:.100}, expected {want!r:.100}"
        return next((told for key in want if (told := difference(got[key], want[key], f"{what}[{key!r}]"))), "")
    if want is None or got is None:
        return "" if want is got else f"{what}: {got!r:.100}, expected {want!r:.100}"
    return _arrays_differ(np.asarray(got), np.asarray(want), what)


def _arrays_differ(got: Array, want: Array, what: str) -> str:
    if got.shape != want.shape:
        return f"{what}: shape {got.shape}, expected {want.shape}"
    if got.dtype == object or want.dtype.kind in "OSUT":
        equal = got.astype(str) == want.astype(str)
    elif got.dtype != want.dtype:
        return f"{what}: {got.dtype}, expected {want.dtype}"
    elif got.dtype.kind in "fcV":
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        tolerance = TOLERANCES.get(got.dtype.name, NARROW)
        with np.errstate(all="ignore"):
            equal = np.isclose(got.astype(wide), want.astype(wide), tolerance, tolerance / 10, equal_nan=True)
    else:
        equal = got == want
    if np.all(equal):
        return ""
    at = tuple(int(k) for k in np.argwhere(~np.asarray(equal))[0])
    count = int(np.size(equal) - np.count_nonzero(equal))
    return f"{what}: {count} of {got.size} differ, first at {at}: {got[at]!r}, expected {want[at]!r}"
