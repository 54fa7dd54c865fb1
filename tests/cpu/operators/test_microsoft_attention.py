"""com.microsoft's Attention and MultiHeadAttention, against onnxruntime; packed operands against those that are not."""

from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, ramp, run_op
from tests.cpu.ort import ort_op

HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
BATCH, HEADS, SIZE, LENGTH, PAST = 2, 3, 4, 7, 5
WIDTH = HEADS * SIZE


def check(op: str, *inputs: Array | None, outputs: int = 1, constants: tuple[int, ...] = (), **attributes: Any) -> None:
    attributes = {"num_heads": HEADS, **attributes}
    want = ort_op(op, inputs, attributes, outputs=["float32"] * outputs, **HOW)
    check_op(op, *inputs, expected=want, outputs=outputs, constants=constants, rtol=1e-4, atol=2e-5, **attributes, **HOW)


def qkv(rows: int, length: int = LENGTH, values: int = WIDTH) -> list[Array]:
    return [ramp((BATCH, rows, WIDTH)), ramp((BATCH, length, WIDTH)), ramp((BATCH, length, values))]


@pytest.mark.parametrize("rows", [1, 4])
def test_a_past_may_be_a_buffer_with_room(rows: int) -> None:
    room = [ramp((BATCH, HEADS, 9, SIZE)), ramp((BATCH, HEADS, 9, SIZE)) - 1]
    count = np.array([PAST], np.int32)
    mask = padding(BATCH, PAST + rows)
    check("MultiHeadAttention", *qkv(rows, rows), None, None, None, *room, count, outputs=3, constants=(8,))
    check("MultiHeadAttention", *qkv(rows, rows), ramp((3 * WIDTH,)), mask, None, *room, count, outputs=4, constants=(8,))


def test_queries_of_a_decoder() -> None:
    room = [ramp((BATCH, HEADS, 9, SIZE)), ramp((BATCH, HEADS, 9, SIZE)) - 1]
    count, op = np.array([PAST], np.int32), "DecoderMaskedMultiHeadAttention"
    mask, bias = padding(BATCH, PAST + 1), ramp((1, HEADS, 1, PAST + 1))
    shared: dict[str, Any] = {"past_present_share_buffer": 1, "constants": (7,)}
    check(op, *qkv(1, 1), mask, None, *room, count, outputs=3, **shared)
    check(op, *qkv(1, 1), None, bias, *room, count, None, None, ramp((3 * WIDTH,)), outputs=4, output_qk=1, **shared)
    heads = (BATCH, HEADS, LENGTH, SIZE)
    check(op, ramp((BATCH, 1, WIDTH)), ramp(heads), ramp(heads) + 1, padding(BATCH, LENGTH))


def test_beams_read_the_past_of_those_that_they_came_by() -> None:
    room, count = [ramp((BATCH, HEADS, 9, SIZE)), ramp((BATCH, HEADS, 9, SIZE)) - 1], np.array([PAST], np.int32)
    beams = np.random.default_rng(0).integers(0, 2, (1, BATCH, 9)).astype(np.int32)
    check("MultiHeadAttention", *qkv(1, 1), None, None, None, *room, count, beams, outputs=3, constants=(8,))
    inputs = [*qkv(1, 1), padding(BATCH, PAST + 1), ramp((1, HEADS, 1, PAST + 1)), *room, count, np.array([2], np.int32), beams]
    check("DecoderMaskedMultiHeadAttention", *inputs, outputs=3, constants=(7,), past_present_share_buffer=1)


def test_beams_without_a_past_share_nothing() -> None:
    """Cross attention of a search has the inputs of its other layers."""
    count, width, beams = np.array([PAST], np.int32), np.array([2], np.int32), np.zeros((1, 2, 3), np.int32)
    heads, bias = ramp((BATCH, HEADS, LENGTH, SIZE)), ramp((3 * WIDTH,))
    operands = [ramp((BATCH, 1, WIDTH)), heads, heads + 1]
    more = [None, None, None, None, count, width, beams, bias]
    check("DecoderMaskedMultiHeadAttention", *operands, *more, outputs=1)
    check("MultiHeadAttention", *operands, bias, None, None, None, None, count, beams, outputs=1)
    with pytest.raises((InvalidArgument, RuntimeException), match="beam_width is 3, cache_indirection is for 2 beams"):
        run_op("DecoderMaskedMultiHeadAttention", [*operands, *more[:5], width + 1, beams], {"num_heads": HEADS}, **HOW)


@pytest.mark.parametrize("count", [-1, 9, 2**31 - 1])
@pytest.mark.parametrize("constants", [(), (8,)], ids=["of the run", "constant"])
def test_new_rows_must_fit_behind_those_that_count(count: int, constants: tuple[int, ...]) -> None:
    room = [ramp((BATCH, HEADS, 9, SIZE))] * 2
    inputs = [*qkv(1, 1), None, None, None, *room, np.array([count], np.int32)]
    with pytest.raises((InvalidArgument, NotSupported), match="MultiHeadAttention"):
        run_op("MultiHeadAttention", inputs, {"num_heads": HEADS}, outputs=3, constants=constants, **HOW)


def padding(*shape: int) -> Array:
    return np.asarray(ramp(shape) > -0.5, np.int32)


@pytest.mark.parametrize("rows", [2, 5])
def test_queries_keys_and_values(rows: int) -> None:
    check("MultiHeadAttention", *qkv(rows, values=HEADS * 6))
    check("MultiHeadAttention", *qkv(rows), ramp((3 * WIDTH,)), scale=0.3, constants=(3,))
    check("MultiHeadAttention", *qkv(rows, rows), unidirectional=1)
    heads = (BATCH, HEADS, LENGTH, SIZE)
    check("MultiHeadAttention", ramp((BATCH, rows, WIDTH)), ramp(heads), ramp(heads), ramp((3 * WIDTH,)))


@pytest.mark.parametrize("rows", [1, 5])
def test_masks_and_biases_of_many_heads(rows: int) -> None:
    masks = [
        padding(BATCH, LENGTH),
        padding(BATCH, rows, LENGTH),
        np.array([3, 7], np.int32),
        np.array([3, 7, 0, rows, 2 * rows, 0, 3, 10], np.int32),
        np.zeros((BATCH, LENGTH), np.int32),
    ]
    for mask in masks:
        check("MultiHeadAttention", *qkv(rows), None, mask)
        check("MultiHeadAttention", *qkv(rows), None, mask, ramp((1, HEADS, rows, LENGTH)), mask_filter_value=-3.0)
    for shape in [(1, 1), (BATCH, 1), (1, HEADS), (BATCH, HEADS)]:
        check("MultiHeadAttention", *qkv(rows), None, None, ramp((*shape, rows, LENGTH)))


@pytest.mark.parametrize("rows", [1, 5])
def test_many_heads_with_a_past(rows: int) -> None:
    past = [ramp((BATCH, HEADS, PAST, SIZE)), ramp((BATCH, HEADS, PAST, SIZE), low=0)]
    check("MultiHeadAttention", *qkv(rows, rows), None, None, None, *past, outputs=3, unidirectional=1)
    mask = padding(BATCH, PAST + rows)
    check("MultiHeadAttention", *qkv(rows, rows), ramp((3 * WIDTH,)), mask, None, *past, outputs=3)


def test_many_heads_tell_their_scores() -> None:
    check("MultiHeadAttention", *qkv(5), None, None, ramp((1, 1, 5, LENGTH)), outputs=4)


def test_packed_operands_are_the_same_operands() -> None:
    q, k, v = qkv(LENGTH)
    q4, k4, v4 = (x.reshape(BATCH, LENGTH, HEADS, SIZE) for x in (q, k, v))
    [want] = run_op("MultiHeadAttention", [q, k, v, ramp((3 * WIDTH,))], {"num_heads": HEADS}, **HOW)
    for packed in ([np.stack([q4, k4, v4], axis=3), None, None], [q, np.stack([k4, v4], axis=3), None]):
        check_op("MultiHeadAttention", *packed, ramp((3 * WIDTH,)), num_heads=HEADS, expected=want, **HOW)


def projection(rows: int, columns: int = 3 * WIDTH) -> list[Array]:
    return [ramp((BATCH, rows, 10)), ramp((10, columns), low=-0.5, high=0.5), ramp((columns,))]


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_its_projection(causal: int, rows: int) -> None:
    check("Attention", *projection(rows), constants=(1, 2), unidirectional=causal)
    check("Attention", *projection(rows, 2 * WIDTH + 6), qkv_hidden_sizes=[WIDTH, WIDTH, 6], unidirectional=causal)
    check("Attention", *projection(rows), outputs=2, scale=0.2, unidirectional=causal)
    past = ramp((2, BATCH, HEADS, PAST, SIZE))
    check("Attention", *projection(rows), None, past, outputs=2, unidirectional=causal)


def test_masks_and_biases_of_attention() -> None:
    lengths = np.array([3, 5], np.int32)
    starts = np.array([1, 0], np.int32)
    for mask in [padding(BATCH, 5), padding(BATCH, 5, 5), lengths, np.concatenate([lengths, starts])]:
        check("Attention", *projection(5), mask)
    check("Attention", *projection(5), padding(BATCH, PAST + 5), ramp((2, BATCH, HEADS, PAST, SIZE)), outputs=2)
    check("Attention", *projection(5), padding(BATCH, 5), None, ramp((BATCH, HEADS, 5, 5)))


@pytest.mark.parametrize("rows", [1, 5])
def test_a_mask_of_one_column_masks_nothing(rows: int) -> None:
    past = ramp((2, BATCH, HEADS, PAST, SIZE))
    for mask in (np.zeros((BATCH, 1), np.int32), np.zeros((1, 1), np.int32)):
        check("Attention", *projection(rows), mask)
        check("Attention", *projection(rows), mask, past, outputs=2)


@pytest.mark.parametrize("ends", [(999, 3), (5, 6, -3, 0), (2, 5, 9, -9), (2**31 - 1, 1)])
def test_lengths_beyond_the_keys_are_those_of_all(ends: tuple[int, ...]) -> None:
    check("Attention", *projection(5), np.array(ends, np.int32))
    check("MultiHeadAttention", *qkv(5, 5), None, np.array(ends[:BATCH], np.int32))


def test_the_projections_bias_is_optional() -> None:
    x, w, bias = projection(5)
    [want] = run_op("Attention", [x, w, bias * 0], {"num_heads": HEADS}, **HOW)
    check_op("Attention", x, w, num_heads=HEADS, expected=want, **HOW)


def test_caches_that_do_not_fit_are_refused() -> None:
    shared = [*qkv(1, 1), None, None, None, *[ramp((BATCH, HEADS, PAST, SIZE))] * 2, np.array([2], np.int32)]
    with pytest.raises(NotSupported, match="cache_indirection without past_sequence_length"):
        run_op("MultiHeadAttention", [*shared[:8], None, np.zeros((1, 2, PAST), np.int32)], {"num_heads": HEADS}, **HOW)
    with pytest.raises((InvalidArgument, RuntimeException), match="1 groups of 3 beams for a batch of 2"):
        run_op(
            "MultiHeadAttention", [*shared[:6], None, None, None, np.zeros((1, 3, PAST), np.int32)], {"num_heads": HEADS}, **HOW
        )
    for beams, message in (
        (np.full((1, 2, PAST), 2, np.int32), r"beam 2 at position 0 of 'in9' is out of range \[0, 2\)"),
        (np.zeros((1, 2, PAST + 1), np.int32), f"cache_indirection has {PAST + 1} columns for a past of {PAST}"),
        (np.zeros((1, 3, PAST), np.int32), "1 groups of 3 beams for a batch of 2"),
    ):
        with pytest.raises((InvalidArgument, RuntimeException), match=message):
            run_op("MultiHeadAttention", [*shared, beams], {"num_heads": HEADS}, **HOW)
    op = "DecoderMaskedMultiHeadAttention"
    with pytest.raises(NotSupported, match="a past without past_present_share_buffer"):
        run_op(op, [*qkv(1, 1), None, None, *shared[6:]], {"num_heads": HEADS}, **HOW)
    with pytest.raises(InvalidArgument, match=r"query, .* is 2[,;] it should be 1"):
        run_op(op, [*qkv(2, 2), None, None, *shared[6:]], {"num_heads": HEADS, "past_present_share_buffer": 1}, **HOW)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("op_type", "inputs", "more", "message"),
    [
        (
            "Attention",
            projection(5),
            {"qkv_hidden_sizes": [WIDTH, WIDTH, 9 * WIDTH]},
            "queries, keys and values have .* columns",
        ),
        ("Attention", [ramp((2, 5, 7)), *projection(5)[1:]], {}, "weights, .* is 10, but I is 7"),
        ("Attention", [*projection(5)[:2], ramp((5,))], {}, "bias, .* is 5, but W is 36"),
        ("Attention", [*projection(5), padding(3, 5)], {}, "mask_index, .* is 3; it should be 1 or 2"),
        (
            "Attention",
            [*projection(5), np.array([-4, 5], np.int32)],
            {},
            "the end of the keys of sample 0 is -4, expected 0 or more",
        ),
        ("Attention", [*projection(5), np.ones(3, np.int32)], {}, "a mask of 3 lengths for a batch of 2"),
        (
            "Attention",
            [*projection(5), None, ramp((2, 1, HEADS, PAST, SIZE))],
            {},
            "past, .* is 1, but B is 2",
        ),
        ("MultiHeadAttention", [ramp((BATCH, 3, HEADS, 2, SIZE))], {}, "query, .* is 2[,;] it should be 3"),
        ("MultiHeadAttention", [ramp((BATCH, 3, HEADS + 1, 3, SIZE))], {}, "query, .* is 4, but num_heads is 3"),
        ("MultiHeadAttention", [*qkv(3), ramp((2,))], {}, "the bias does not fit queries, keys and values: 2 against"),
        (
            "MultiHeadAttention",
            [ramp((BATCH, 3, WIDTH + 1)), *qkv(3)[1:]],
            {},
            "query, .* is 13[,;] no multiple of num_heads, which is 3 by the attribute",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    op_type: str, inputs: list[Array | None], more: dict[str, Any], message: str, fixed: bool
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run_op(op_type, inputs, {"num_heads": HEADS, **more}, fixed=fixed, **HOW)


@pytest.mark.parametrize(
    ("op_type", "inputs", "more", "message"),
    [
        ("Attention", projection(5), {"num_heads": 0}, "0 heads"),
        ("Attention", projection(5), {"qkv_hidden_sizes": [5 * WIDTH, -3 * WIDTH, WIDTH]}, "qkv_hidden_sizes"),
        ("Attention", projection(5), {"qkv_hidden_sizes": [WIDTH] * 4}, "qkv_hidden_sizes"),
        *(("Attention", projection(5), {name: 1}, name) for name in ("do_rotary", "past_present_share_buffer")),
        ("Attention", [*projection(5), np.array(5, np.int32)], {}, "a mask of rank 0"),
        ("Attention", [*projection(5), np.ones((BATCH, 1, 5, 5), np.int32)], {}, "a mask of rank 4"),
        ("MultiHeadAttention", [ramp((BATCH, 3, WIDTH))], {}, "queries without keys and values"),
    ],
)
def test_what_no_kernel_takes_is_refused(op_type: str, inputs: list[Array | None], more: dict[str, Any], message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        run_op(op_type, inputs, {"num_heads": HEADS, **more}, **HOW)


def test_keys_that_are_passed_on_have_the_heads_of_the_queries() -> None:
    """Output 1 is the keys' own memory."""
    keys, values = ramp((BATCH, 1, LENGTH, SIZE)), ramp((BATCH, 1, LENGTH, SIZE))
    with pytest.raises(InvalidArgument, match=r"key, .* is 1, but num_heads is 3"):
        run_op("MultiHeadAttention", [ramp((BATCH, 3, WIDTH)), keys, values], {"num_heads": HEADS}, outputs=3, **HOW)
