"""SkipLayerNormalization, EmbedLayerNormalization, BiasGelu and their like, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, OrtLiteError, RuntimeException
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

Shape = tuple[int, ...]
HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
SKIP, SIMPLE = "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"


def check(op: str, *inputs: Array | None, outputs: tuple[str, ...] = ("float32",), **attributes: Any) -> None:
    want = ort_op(op, inputs, attributes, outputs=outputs, **HOW)
    check_op(op, *inputs, expected=want, outputs=len(outputs), **attributes, **HOW, **TOLERANCE)


def vector(low: float) -> Array:
    return np.asarray(ramp((12,), low=low))


@pytest.mark.parametrize("skip", [(2, 5, 12), (1, 5, 12), (5, 12)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_what_is_skipped_is_added_first(skip: Shape, bias: bool) -> None:
    x, extra = ramp((2, 5, 12)), vector(-1) if bias else None
    check(SKIP, x, ramp(skip), vector(0), vector(1), extra)
    check(SKIP, x, ramp(skip), vector(0), None, extra, epsilon=0.1)
    check(SIMPLE, x, ramp(skip), vector(0), extra)


def test_two_dimensions_and_small_deviations() -> None:
    x = ramp((7, 12), low=-1e-6, high=1e-6)
    check(SIMPLE, x, x, vector(0))
    check(SKIP, x[None], x[None], vector(0))


@pytest.mark.parametrize("op", [SKIP, SIMPLE])
def test_statistics_and_the_sum_are_told(op: str) -> None:
    x, skip, gamma = ramp((2, 3, 12)), ramp((2, 3, 12), low=0), vector(0.5)
    check_op(op, x, skip, gamma, expected=lambda *_, **__: statistics(op, x + skip, gamma), outputs=4, **HOW, **TOLERANCE)


def statistics(op: str, total: Array, gamma: Array) -> list[Array]:
    mean = total.mean(-1, keepdims=True) if op == SKIP else np.zeros((2, 3, 1), np.float32)
    inverse = 1 / np.sqrt(((total - mean) ** 2).mean(-1, keepdims=True) + np.float32(1e-12))
    return [(total - mean) * inverse * gamma, mean, inverse, total]


def test_doubles_have_statistics_of_single_precision() -> None:
    x = ramp((2, 3, 12), "float64")
    got = run_op(SKIP, [x, x, np.ones(12)], {}, outputs=4, **HOW)
    assert [array.dtype.name for array in got] == ["float64", "float32", "float32", "float64"]
    np.testing.assert_allclose(got[0], statistics(SKIP, 2 * x, np.ones(12))[0], rtol=1e-12)


def test_a_skip_that_does_not_repeat_is_named() -> None:
    with pytest.raises(InvalidArgument, match="2 rows of skip do not repeat to 15"):
        run_op(SKIP, [ramp((3, 5, 12)), ramp((2, 12)), vector(0)], {}, **HOW)
    with pytest.raises(InvalidArgument, match=r"gamma, .* is 11, but H is 12"):
        run_op(SKIP, [ramp((3, 5, 12)), ramp((3, 5, 12)), ramp((11,))], {}, **HOW)


IDS = np.array([[0, 3, 8, 1, 1], [7, 6, 2, 0, 8]], np.int32)
SEGMENTS = IDS % 2
TABLES = [ramp((9, 12)), ramp((6, 12), low=0), ramp((2, 12), low=1)]
EMBED = "EmbedLayerNormalization"


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("places", [None, (2, 5), (1, 5)], ids=str)
def test_embeddings_are_added_and_normalised(segments: bool, places: Shape | None) -> None:
    words, positions, kinds = TABLES
    tables = [words, positions, kinds if segments else None]
    ids = None if places is None else (np.arange(places[0] * 5) % 6).astype(np.int32).reshape(places)
    mask = None if places is None else (IDS > 1).astype(np.int32)
    inputs = [IDS, SEGMENTS if segments else None, *tables, vector(0.5), vector(0), mask, ids]
    check(EMBED, *inputs, outputs=("float32", "int32", "float32"), epsilon=0.01)


def test_an_id_out_of_range_is_named() -> None:
    words, places, kinds = TABLES
    rest = [vector(0), vector(1), None]
    segments = np.array([[0, 0, 0, -1, 0]] * 2, np.int32)
    with pytest.raises(RuntimeException, match=rf"id {IDS[0, 2]} at position 2 of 'in0' is out of range \[0, 8\)"):
        run_op(EMBED, [IDS, None, ramp((8, 12)), places, None, *rest], {}, **HOW)
    with pytest.raises(RuntimeException, match=r"segment id -1 at position 3 of 'in1' is out of range \[0, 2\)"):
        run_op(EMBED, [IDS, segments, words, places, kinds, *rest], {}, **HOW)
    with pytest.raises(RuntimeException, match=r"position 9 at position 4 of 'in8' is out of range \[0, 6\)"):
        run_op(EMBED, [IDS, None, words, places, None, *rest, np.array([[0, 1, 2, 3, 9]], np.int32)], {}, **HOW)
    with pytest.raises(RuntimeException, match="there are 5 steps, and 4 positions in 'in3'"):
        run_op(EMBED, [IDS, None, words, places[:4], None, *rest], {}, **HOW)


@pytest.mark.parametrize("shape", [(2, 5, 12), (12,)], ids=str)
def test_gelu_of_a_sum(shape: Shape) -> None:
    check("BiasGelu", ramp(shape), vector(-1))
    check("FastGelu", ramp(shape), vector(-1))
    check("FastGelu", ramp(shape))


@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_normalization(axis: int) -> None:
    inputs, attributes = [ramp((2, 5, 12)), ramp((2, 5, 12)[axis:], low=0)], {"axis": axis, "epsilon": 0.01}
    want = ort_op("SimplifiedLayerNormalization", inputs, attributes, opset=17, outputs=("float32", "float32"))
    check_op("SimplifiedLayerNormalization", *inputs, opset=17, outputs=2, expected=want, **attributes, **TOLERANCE)


@pytest.mark.parametrize("op", [SKIP, SIMPLE])
def test_vectors_that_do_not_fit_are_refused(op: str) -> None:
    x = ramp((2, 3, 12))
    first, bias = (3, 4) if op == SKIP else (3, 3)
    for position in {first, bias}:
        inputs: list[Array | None] = [x, x, vector(0), None, None][: 3 + bias - 2]
        inputs[position] = ramp((11,))
        with pytest.raises(InvalidArgument, match=f"{op} 'node' .*is 11, but H is 12"):
            run_op(op, inputs, {}, **HOW)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_skip_without_rows_is_refused(fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"SkipLayerNormalization 'node' .*0 rows of skip do not repeat to 6"):
        run_op(SKIP, [ramp((2, 3, 12)), np.zeros((0, 3, 12), np.float32), vector(0)], {}, fixed=fixed, **HOW)
    with pytest.raises(InvalidArgument, match=r"SkipLayerNormalization 'node' .*skip, 'in1'. has rank 0"):
        run_op(SKIP, [ramp((2, 3, 12)), ramp(()), vector(0)], {}, fixed=fixed, **HOW)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("index", "shape", "message"),
    [
        (1, (2, 4), "segment_ids, .* is 4, but S is 5"),
        (3, (6, 11), "position_embedding, .* is 11, but H is 12"),
        (4, (2, 11), "segment_embedding, .* is 11, but H is 12"),
        (5, (11,), "gamma, .* is 11, but H is 12"),
        (6, (13,), "beta, .* is 13, but H is 12"),
        (7, (3, 5), "mask, .* is 3, but B is 2"),
        (
            8,
            (2, 3),
            "position_ids, .* is 3, but S is 5|position_ids, .* is 3[,;] it should be 1 or 2",
        ),
        (
            8,
            (3, 5),
            "position_ids, .* is 3, but S is 5|position_ids, .* is 3[,;] it should be 1 or 2",
        ),
        (8, (5,), "position_ids, .*has rank 1"),
        (2, (8, 12, 1), "word_embedding, .*has rank 3"),
    ],
    ids=str,
)
def test_embeddings_that_do_not_fit_are_refused(index: int, shape: Shape, message: str, fixed: bool) -> None:
    whole = np.zeros((2, 5), np.int32)
    tables = [ramp((8, 12)), ramp((6, 12)), ramp((2, 12)), vector(0), vector(1)]
    inputs: list[Any] = [whole, whole, *tables, np.ones((2, 5), np.int32), whole]
    inputs[index] = np.zeros(shape, inputs[index].dtype)
    with pytest.raises(OrtLiteError, match=f"EmbedLayerNormalization 'node'.*({message})"):
        run_op("EmbedLayerNormalization", inputs, {}, outputs=2, fixed=fixed, **HOW)


def test_fast_gelu_of_numbers_far_below_zero() -> None:
    """The tail keeps its digits, and far out it is zero: no difference of 1 and what a tanh leaves of it."""
    x = np.array([-1e30, -30, -5, -3, 0, 30], np.float32)
    wide = x.astype(np.longdouble)
    with np.errstate(over="ignore"):
        expected = np.asarray(wide / (1 + np.exp(-2 * 0.7978845608028654 * (wide + 0.044715 * wide**3))), np.float32)
    [y] = run_op("FastGelu", [x], {}, **HOW)
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=0)
    [y] = run_op("Gelu", [x], {"approximate": "tanh"})
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=0)
