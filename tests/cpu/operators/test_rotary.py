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


def test_packed_batches_are_longer_than_the_caches() -> None:
    inputs = [ramp((1, 6, 24)), np.array([[0, 1, 2, 0, 1, 0]]), *caches(3, 2)]
    attributes = {"num_heads": 3, "rotary_embedding_dim": 4, "is_packed_batching": 1}
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


X, FLAT = ramp((2, 3, 5, 8)), ramp((2, 5, 24))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, *caches(10, 3), IDS], {}, "a cache has rows of 3, expected 8 / 2"),
        ([X, *caches(10, 4), IDS[:, :4]], {}, "position_ids, .* is 4, but S is 5"),
        ([X, *caches(10, 250), IDS], {"rotary_embedding_dim": 500}, "500 of the 8 numbers of a head cannot be rotated"),
        ([X, *caches(10, 4), IDS], {"rotary_embedding_dim": -8}, "-8 / 2"),
    ],
)
def test_what_does_not_fit_is_named(inputs: list[Array], attributes: dict[str, int], message: str, fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run_op("RotaryEmbedding", inputs, attributes, opset=23, fixed=fixed)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, ints(3, 4), *caches(10, 4)], {}, "position_ids, .* is 2[,;] it should be 1"),
        ([FLAT, ints(0), *caches(10, 0)], {}, "24 columns do not make 0 heads|0 heads"),
        ([FLAT, ints(), *caches(10, 4)], {}, "position_ids, .* is 0[,;] it should be 1"),
        ([FLAT, ints(0), ramp((12,)), ramp((12,))], {}, "cos_cache, .*has rank 1"),
    ],
)
def test_what_does_not_fit_microsofts_is_named(
    inputs: list[Array], attributes: dict[str, int], message: str, fixed: bool
) -> None:
    with pytest.raises((InvalidArgument, NotSupported), match=message):
        run_op("RotaryEmbedding", inputs, attributes, opset=1, domain=MICROSOFT, fixed=fixed)


def positions(batch: int, rows: int, limit: int = 9) -> Array:
    return np.random.default_rng([batch, rows]).integers(0, limit, (3, batch, rows))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    ("shape", "turned", "sections"),
    [
        ((2, 3, 5, 16), 0, (4, 2, 2)),
        ((2, 3, 5, 16), 8, (2, 1, 1)),
        ((2, 5, 48), 0, (6, 1, 1)),
        ((2, 5, 48), 12, (2, 3, 1)),
        ((1, 1, 0, 16), 0, (3, 3, 2)),
    ],
)
def test_three_positions(shape: Any, turned: int, sections: tuple[int, ...], interleaved: int, layout: int, dtype: str) -> None:
    draw = np.random.default_rng(0).normal
    half, rows = sum(sections), shape[-2]
    cache = [draw(size=(9, half)).astype(dtype) for _ in range(2)]
    inputs = [draw(size=shape).astype(dtype), positions(shape[0], rows), *cache]
    given: dict[str, Any] = {"mrope_section": sections, "mrope_layout": layout, "interleaved": interleaved, "scale": 1.5}
    if turned or len(shape) == 3:
        given |= {"rotary_embedding_dim": turned, "num_heads": 3}
    want = ort_op("MRotaryEmbedding", inputs, given, opset=1, domain=MICROSOFT, outputs=(dtype,))
    how: dict[str, Any] = {"rtol": 1e-3, "atol": 4e-3} if dtype == "float16" else {}
    check_op("MRotaryEmbedding", *inputs, expected=want, constants=[2, 3], opset=1, domain=MICROSOFT, **how, **given)


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ((2, 1, 3, 9), {}, "position 9, of row 8 in stream 2, is out of range"),
        ((0, 0, 0, -1), {}, "position -1, of row 0 in stream 0, is out of range"),
        (None, {"mrope_section": (4, 4, 1)}, "mrope_section"),
        (None, {"mrope_layout": 2}, "mrope_layout 2"),
    ],
)
def test_positions_and_sections_that_do_not_fit(change: Any, given: dict[str, Any], message: str) -> None:
    ids = positions(2, 5)
    if change:
        ids[change[:3]] = change[3]
    inputs = [ramp((2, 3, 5, 16)), ids, *caches(9, 8)]
    with pytest.raises((InvalidArgument, NotSupported), match=message):
        run_op("MRotaryEmbedding", inputs, {"mrope_section": (4, 2, 2)} | given, opset=1, domain=MICROSOFT)
