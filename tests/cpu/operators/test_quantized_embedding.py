"""QEmbedLayerNormalization of com.microsoft against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

BATCH, STEPS, WIDTH = 2, 5, 8
SEGMENTS = (1, 4, 10, 15)


def ids(most: int, batch: int = BATCH) -> Array:
    return np.random.default_rng(most).integers(0, most, (batch, STEPS)).astype(np.int32)


def operands(dtype: str = "uint8", *, segments: bool = True, mask: bool = True, batch: int = BATCH) -> list[Array | None]:
    tables = [ramp((rows, WIDTH), dtype) for rows in (9, 6, 3)]
    scales = [np.array(scale, np.float32) for scale in (0.02, 0.03, 0.5, 0.013, 0.007)]
    zeros = [np.array(zero, dtype) for zero in (3, 0, 1, 17, 40)]
    found: list[Array | None] = [
        ids(9, batch),
        ids(3, batch),
        *tables,
        ramp((WIDTH,), dtype),
        ramp((WIDTH,), dtype)[::-1].copy(),
    ]
    found += [ids(2, batch) if mask else None, *scales, *zeros]
    return found if segments else [None if k in SEGMENTS else array for k, array in enumerate(found)]


def check(inputs: list[Array | None], **attributes: Any) -> None:
    want = ort_op("QEmbedLayerNormalization", inputs, {"epsilon": 1e-12, **attributes}, outputs=("float32", "int32"), **HOW)
    constants = [k for k in (*range(2, 7), *range(8, 18)) if inputs[k] is not None]
    how: dict[str, Any] = {"expected": want, "outputs": 2, "constants": constants, "rtol": 1e-4, "atol": 1e-5}
    check_op("QEmbedLayerNormalization", *inputs, **how, **attributes, **HOW)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_embeddings(dtype: str, segments: bool, mask: bool) -> None:
    check(operands(dtype, segments=segments, mask=mask))
    check(operands(dtype, segments=segments, mask=mask), epsilon=0.1)


def test_embeddings_of_nothing() -> None:
    want = [np.zeros((0, STEPS, WIDTH), np.float32), np.zeros(0, np.int32)]
    check_op("QEmbedLayerNormalization", *operands(batch=0), expected=want, outputs=2, **HOW)


def test_ids_have_a_row() -> None:
    for index, what, rows in ((0, "id", 9), (1, "segment id", 3)):
        inputs = operands()
        given = inputs[index]
        assert given is not None
        given[1, 2] = rows
        with pytest.raises(InvalidArgument, match=rf"{what} {rows} at position 7 of 'in{index}' is out of range \[0, {rows}\)"):
            run_op("QEmbedLayerNormalization", inputs, outputs=2, **HOW)
    inputs = operands()
    inputs[3] = ramp((4, WIDTH), "uint8")
    with pytest.raises(InvalidArgument, match="there are 5 steps, and 4 positions in 'in3'"):
        run_op("QEmbedLayerNormalization", inputs, outputs=2, **HOW)
    with pytest.raises(NotSupported, match="some of segment ids, their embedding"):
        run_op("QEmbedLayerNormalization", [None if k == 1 else x for k, x in enumerate(operands())], outputs=2, **HOW)
