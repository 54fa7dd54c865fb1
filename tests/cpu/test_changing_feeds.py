"""Numbers of a feed that another thread changes during a run: each run reads them once."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite_cpu.lowering.deferred_suffix import DeferredSuffix
from ort_lite_cpu.program.segment_run import SegmentRun

SIZES = """<ir_version: 10, opset_import: ["": 21]> g (float[1,8] x, int64[2] shape) => (float sum, float again, int64 most)
{
    wide = Expand(x, shape)
    places = NonZero(wide)
    most = ReduceMax<keepdims = 0>(places)
    sum = ReduceSum<keepdims = 0>(wide)
    twice = Expand(x, shape)
    again = ReduceSum<keepdims = 0>(twice)
}"""


def test_a_size_is_the_same_in_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """NonZero ends the first segment, which allocates what the second one reads."""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(SIZES).SerializeToString())
    shape, values = np.array([100, 8]), SegmentRun.values

    def change(self: SegmentRun, *arguments: Any) -> tuple[int, ...]:
        found = values(self, *arguments)
        shape[0] += 1000
        return found

    monkeypatch.setattr(SegmentRun, "values", change)
    results = session.run(None, {"x": np.ones((1, 8), np.float32), "shape": shape})
    assert shape[0] >= 2100, "there are several segments"
    assert [result.item() for result in results] == [800, 800, 99]


RANGE = """<ir_version: 10, opset_import: ["": 21]> g (float s) => (float[M] y)
{
    one = Constant<value = float {1}>()
    zero = Constant<value = float {0}>()
    y = Range(zero, s, one)
}"""


def test_a_program_is_kept_by_the_numbers_that_it_was_lowered_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats that decide a size: the rest of the program is lowered during the run."""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(RANGE).SerializeToString())
    s, key = np.array(3, np.float32), DeferredSuffix._key

    def change(self: DeferredSuffix, value: Any, array: Any) -> Any:
        found = key(self, value, array)
        s[...] = 5
        return found

    with monkeypatch.context() as patched:
        patched.setattr(DeferredSuffix, "_key", change)
        assert session.run(None, {"s": s})[0].size == 3
    for number in (3, 5):
        assert session.run(None, {"s": np.array(number, np.float32)})[0].size == number
