"""Sessions whose first run is verified, and what tests ask of them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import VerificationError
from ort_lite.session.first_run import FirstRun
from ort_lite.session.ready import Ready
from tests.tools.verify.providers import CHAIN, FEED, Off, model

X = FEED["x"][0]
ONES = {"x": np.ones((1, 3), np.float32)}
WEIGHTED = model("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }")
NEGATIVE = model("(float[N,3] x) => (float[N,3] y) { a = Tanh(x)  y = Neg(a) }")


def session(
    provider: Any, text: Any = CHAIN, verify: Any = "first", entries: Mapping[str, str] = {}
) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return ort_lite.InferenceSession(text, options, providers=[provider], verify=verify)


def found(made: ort_lite.InferenceSession, feed: Mapping[str, Any] = FEED) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        made.run(None, feed)
    return caught.value


def ready_of(made: ort_lite.InferenceSession) -> Ready:
    ready = made._state.ready
    assert isinstance(ready, Ready)
    return ready


def is_verified(made: ort_lite.InferenceSession) -> bool:
    """Return True if the next run is verified."""
    run = ready_of(made)._run
    return isinstance(run, partial) and isinstance(getattr(run.func, "__self__", None), FirstRun)


class Negative(Off):
    """Wrong for negative numbers alone."""

    def __init__(self, **options: Any) -> None:
        super().__init__(lambda node, y: y + np.float32(node.op_type == "Tanh" and bool((y < 0).any())))
