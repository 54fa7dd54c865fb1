"""RotaryEmbedding of both domains."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ints, ramp, run_op
from tests.cpu.ort import ort_op

MICROSOFT = "com.microsoft"
IDS = np.array([[0, 3, 9, 1, 1], [7, 6, 2, 0, 8]])


def caches(rows: int, columns: int) -> list[Array]:
    return [ramp((rows, columns)), ramp((rows, columns), low=0)]


@pytest.mark.parametrize("attributes", [{}, {"interleaved": 1}, {"num_heads": 3, "rotary_embedding_dim": 4}], ids=str)
@pytest.mark.parametrize("ids", [IDS, ints(3)], ids=["each", "first"])
@pytest.mark.parametrize("rank", [3, 4])
def test_microsofts_matches_onnxruntime(rank: int, ids: Array, attributes: dict[str, Any]) -> None:
    x = ramp((2, 5, 24) if rank == 3 else (2, 3, 5, 8))
    inputs = [x, ids, *caches(10, attributes.get("rotary_embedding_dim", 8) // 2)]
    want = ort_op("RotaryEmbedding", inputs, attributes, opset=1, domain=MICROSOFT)
    check_op("RotaryEmbedding", *inputs, domain=MICROSOFT, opset=1, expected=want, **attributes)


@pytest.mark.parametrize(
    ("ids", "where"),
    [(np.where(IDS == 9, 10, IDS), "10, of row 2 of sample 0"), (np.where(IDS == 8, -1, IDS), "-1, of row 4 of sample 1")],
    ids=["high", "low"],
)
def test_a_position_beyond_the_caches_is_named(ids: Array, where: str) -> None:
    with pytest.raises(RuntimeException, match=rf"position {where}, is out of range \[0, 10\) of the caches"):
        run_op("RotaryEmbedding", [ramp((2, 3, 5, 8)), *caches(10, 4), ids], {}, opset=23)


def test_what_does_not_fit_is_named() -> None:
    x = ramp((2, 3, 5, 8))
    with pytest.raises(InvalidArgument, match="a cache has rows of 3, expected 8 / 2"):
        run_op("RotaryEmbedding", [x, *caches(10, 3), IDS], {}, opset=23)
    with pytest.raises(InvalidArgument, match="position_ids do not fit: 4 against 5"):
        run_op("RotaryEmbedding", [x, *caches(10, 4), IDS[:, :4]], {}, opset=23)
    with pytest.raises(InvalidArgument, match="position_ids do not fit: 2 against 1"):
        run_op("RotaryEmbedding", [x, ints(3, 4), *caches(10, 4)], {}, opset=1, domain=MICROSOFT)
    with pytest.raises(NotSupported, match="is_packed_batching"):
        run_op("RotaryEmbedding", [x, IDS, *caches(10, 4)], {"is_packed_batching": 1}, opset=1, domain=MICROSOFT)


@pytest.mark.parametrize("fixed", [False, True])
def test_no_more_is_rotated_than_a_head_has(fixed: bool) -> None:
    x = ramp((2, 3, 5, 8))
    with pytest.raises(InvalidArgument, match="500 of the 8 numbers of a head cannot be rotated"):
        run_op("RotaryEmbedding", [x, *caches(10, 250), IDS], {"rotary_embedding_dim": 500}, opset=23, fixed=fixed)
    with pytest.raises(InvalidArgument, match="-8 / 2"):
        run_op("RotaryEmbedding", [x, *caches(10, 4), IDS], {"rotary_embedding_dim": -8}, opset=23, fixed=fixed)


@pytest.mark.parametrize("fixed", [False, True])
def test_caches_and_positions_without_elements_are_refused(fixed: bool) -> None:
    x = ramp((2, 5, 24))
    how: dict[str, Any] = {"opset": 1, "domain": MICROSOFT, "fixed": fixed}
    with pytest.raises((InvalidArgument, NotSupported), match=r"24 columns do not make 0 heads|0 heads"):
        run_op("RotaryEmbedding", [x, ints(0), *caches(10, 0)], {}, **how)
    with pytest.raises(InvalidArgument, match="position_ids do not fit: 0 against 1"):
        run_op("RotaryEmbedding", [x, ints(), *caches(10, 4)], {}, **how)
    with pytest.raises(NotSupported, match="a cache of rank 1"):
        run_op("RotaryEmbedding", [x, ints(0), ramp((12,)), ramp((12,))], {}, **how)
