"""GatherPacked, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

FORMATS = [
    (0, 4, 1),
    (1, 2, 1),
    (2, 18, 32),
    (6, 22, 32),
    (8, 34, 32),
    (13, 176, 256),
    (14, 210, 256),
    (20, 18, 32),
    (23, 136, 256),
    (30, 2, 1),
    (42, 18, 64),
]


def table(kind: int, nbytes: int, blocks: int) -> Array:
    """Return rows of bytes that hold finite floats."""
    data = np.random.default_rng(kind).integers(0, 256, (5, blocks, nbytes), np.uint8)
    scales = {0: (), 1: (), 30: (), 13: (0, 2), 14: (208,)}.get(kind, (0,))
    for start in scales:
        data[..., start : start + 2] = np.random.default_rng(1).normal(size=(5, blocks, 1)).astype(np.float16).view(np.uint8)
    if kind in (0, 1, 30):
        data[..., -1] &= 0x3F
    return data.reshape(5, -1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("kind", "nbytes", "count"), FORMATS)
def test_rows(kind: int, nbytes: int, count: int, dtype: str) -> None:
    data = table(kind, nbytes, 2 if count > 1 else 6)
    given: dict[str, Any] = {
        "packed_type": kind,
        "K": data.shape[1] // nbytes * count,
        "output_dtype": 1 if dtype == "float32" else 10,
    }
    for indices in (np.array([[4, 0], [-1, 9]]), np.array(2, np.int32), np.zeros((0, 3), np.int32)):
        want = ort_op("GatherPacked", [data, indices], given, outputs=(dtype,), **HOW)
        check_op("GatherPacked", data, indices, constants=[0], expected=want, rtol=1e-6, **given, **HOW)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"packed_type": 16, "K": 256}, "packed_type 16"),
        ({"packed_type": 3, "K": 256}, "packed_type 3"),
        ({"packed_type": 2, "K": 40}, "K 40"),
    ],
)
def test_what_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op("GatherPacked", [np.zeros((2, 66), np.uint8), np.array([0])], given | {"output_dtype": 1}, outputs=1, **HOW)
