"""Real models, run by ort_lite and by onnxruntime on the same feeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.plugins.selection import ProviderEntry

Feeds = Mapping[str, Array]
CPU = ("CPUExecutionProvider",)
TOLERANCE = 1e-3


def theirs(model: Any) -> onnxruntime.InferenceSession:
    """onnxruntime's session, with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=list(CPU))


def ours(model: Any, threads: int = 1, providers: Sequence[ProviderEntry] = CPU) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    return ort_lite.InferenceSession(model, options, providers=list(providers))


def assert_same(
    ours: ort_lite.InferenceSession, theirs: onnxruntime.InferenceSession, feeds: Feeds, what: str = ""
) -> list[Array]:
    """Both give the same outputs. Returns ort_lite's."""
    names = [output.name for output in theirs.get_outputs()]
    got = ours.run(names, feeds)
    assert_close(names, got, theirs.run(names, feeds), what)
    return got


def assert_close(names: Sequence[str], got: Sequence[Array], expected: Sequence[Array], what: str = "") -> None:
    """Same types and shapes; values up to 1e-3 of a value and of its output's largest magnitude."""
    for name, a, b in zip(names, got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what} {name}"
        largest = float(np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * largest, err_msg=f"{what} {name}")
