"""Copies in slices give what NumPy gives, and end with their run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import Cancelled
from ort_lite.graph import Node
from ort_lite.memory import sliced_copy
from ort_lite.provider import RunOptions
from ort_lite.provider.current import as_in
from ort_lite_cpu.operators import copying
from tests.cpu.check import ramp

NODE = Node("Copy", (), (), name="node")


@pytest.fixture(autouse=True)
def tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_copy, "SLICE", 40)
    monkeypatch.setattr(copying, "SLICE", 40)
    monkeypatch.setattr(copying, "FEW", 3)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 70), (100, 1, 2), (0, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_as_numpy(shape: tuple[int, ...], dtype: str) -> None:
    arrays = [np.asarray(ramp(shape, dtype) + np.asarray(k, dtype)) for k in range(5)]
    target = np.zeros(shape, dtype)
    copying.assign(NODE, target, arrays[1])
    np.testing.assert_array_equal(target, arrays[1])
    np.testing.assert_array_equal(copying.contiguous(NODE, arrays[2].T), arrays[2].T)
    [[copied], nothing] = copying.duplicate(NODE, [[arrays[3].T], None])
    assert copied.flags.c_contiguous
    assert copied.flags.owndata
    assert nothing is None
    np.testing.assert_array_equal(copied, arrays[3].T)
    for axis in range(-len(shape) - 1, len(shape) + 1):
        np.testing.assert_array_equal(copying.stack(NODE, arrays, axis), np.stack(arrays, axis))
    for axis in range(-len(shape), len(shape)):
        np.testing.assert_array_equal(copying.concatenate(NODE, arrays, axis), np.concatenate(arrays, axis))


def test_texts() -> None:
    arrays = [np.array([f"{k}", "x"], object) for k in range(9)]
    np.testing.assert_array_equal(copying.stack(NODE, arrays, 1), np.stack(arrays, 1))
    np.testing.assert_array_equal(copying.concatenate(NODE, arrays, 0), np.concatenate(arrays, 0))


@pytest.mark.parametrize("join", [copying.stack, copying.concatenate])
@pytest.mark.parametrize(("shapes", "axis"), [([(2, 3)] * 4 + [(2, 4)], 0), ([(2, 3)] * 5, 3), ([(2, 3)] * 4 + [(2,)], 0)])
def test_what_does_not_fit_is_refused(join: Callable[..., Array], shapes: list[tuple[int, ...]], axis: int) -> None:
    with pytest.raises(ValueError, match=r"axis|stacked"):
        join(NODE, [np.zeros(shape, np.float32) for shape in shapes], axis)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: copying.assign(NODE, x, x),
        lambda x: copying.contiguous(NODE, x.T),
        lambda x: copying.duplicate(NODE, [x]),
        lambda x: copying.stack(NODE, [x] * 5, 0),
        lambda x: copying.concatenate(NODE, [x] * 5, 0),
    ],
)
def test_a_cancelled_run_ends_in_them(call: Callable[[Array], Any]) -> None:
    options = RunOptions()
    with as_in(options, None):
        call(ramp((9, 9)))
        options.terminate = True
        with pytest.raises(Cancelled, match="in Copy 'node'"):
            call(ramp((9, 9)))
