"""Feeds that another thread writes to while a run reads them: a run ends with a result or an error, and touches no memory but its own.

Each case runs one session again and again while a thread changes the numbers that steer a kernel, between those that fit and some that
lead far outside. A kernel that checks a number and then loads it again dies within a few runs.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import OrtLiteError
from tests.case_server import Outcome
from tests.hostile.building import operator_model

SECONDS = 0.12
"""Time of one case."""
WARM = 10
"""Runs before: short ones hold the GIL until some were timed."""
FAR = (-(2**31), -1_000_003, 2**31 - 1, 50_000_017)
"""Elements from here: pages that no process has."""


@contextmanager
def written_to(target: Array, values: Callable[[Array], Iterator[Array]]) -> Iterator[None]:
    """Meanwhile a thread writes to the array, one after the other, what `values` makes of a copy of it, and at last the copy."""
    good, done = target.copy(), threading.Event()

    def write() -> None:
        while not done.is_set():
            for array in values(good):
                target[...] = array
            target[...] = good

    writer, interval = threading.Thread(target=write), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join(30)
        sys.setswitchinterval(interval)


def far(good: Array) -> Iterator[Array]:
    """The array with some elements far outside."""
    rng = np.random.default_rng(0)
    for number in FAR:
        made = good.copy()
        made.reshape(-1)[rng.integers(0, good.size, 1 + good.size // 8)] = number
        yield from (made, good, good)


def race(op_type: str, steering: int, *inputs: Array | None, seconds: float = SECONDS, **form: Any) -> Callable[[], None]:
    """The case that writes to input `steering` of one node. form: see `operator_model`."""

    def case() -> None:
        feeds = {f"in{k}": array.copy() for k, array in enumerate(inputs) if array is not None}
        session = ort_lite.InferenceSession(operator_model(op_type, inputs, **form).SerializeToString())
        for _ in range(WARM):
            session.run(None, feeds)
        with written_to(feeds[f"in{steering}"], far):
            end = monotonic() + seconds
            while monotonic() < end:
                with suppress(OrtLiteError):  # a number that it read was out of range
                    session.run(None, feeds)

    return case


def sparse_positions() -> None:
    """A sparse tensor shares the positions that it was made of."""
    positions = np.arange(0, 60_000, 2)
    made = ort_lite.SparseTensor.sparse_coo_from_numpy([60_000], np.ones(30_000, np.float32), positions)
    with written_to(positions, lambda good: iter([good + 2**40, good - 2**40])):
        end = monotonic() + SECONDS
        while monotonic() < end:
            with suppress(OrtLiteError, IndexError):  # the latter is NumPy's, of what it read
                made.dense()


def floats(*shape: int) -> Array:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def below(limit: int, *shape: int, dtype: Any = np.int64) -> Array:
    return (np.arange(int(np.prod(shape))) * 7 % limit).astype(dtype).reshape(shape)


def pairs(*limits: int) -> Array:
    """Positions (4000, axes)."""
    return np.stack([below(limit, 4000) for limit in limits], 1)


MS: dict[str, Any] = {"domain": "com.microsoft"}
N_BITS: dict[str, Any] = {**MS, "N": 512, "K": 1024, "block_size": 16, "bits": 4}
BLOCKS = below(64, 1024, dtype=np.int32)
BYTES = below(256, 512, 64, 8, dtype=np.uint8)
BOXES = np.array([[0, 0, 5, 5]] * 256, np.float32)
ROIS = np.concatenate([below(2, 256, 1, dtype=np.float32), BOXES], 1)
IMAGES = floats(2, 4, 16, 16)
QUERIES = floats(8, 16, 64)
PAST = floats(8, 4, 64, 16)
LSTM = [floats(64, 16, 8), floats(1, 64, 8), floats(1, 64, 16), None, np.full(16, 64, np.int32)]

CASES: dict[str, Callable[[], None]] = {
    "MatMulNBits g_idx": race("MatMulNBits", 4, floats(4, 1024), BYTES, floats(512, 64), None, BLOCKS, **N_BITS, seconds=0.4),
    "Gather": race("Gather", 1, floats(1000, 8), below(1000, 20_000)),
    "Gather of int32": race("Gather", 1, floats(1000, 8), below(1000, 20_000, dtype=np.int32), axis=0),
    "GatherElements": race("GatherElements", 1, floats(1000, 8), below(1000, 1000, 8)),
    "GatherND": race("GatherND", 1, floats(60, 60, 8), pairs(60, 60)),
    "ScatterElements": race("ScatterElements", 1, floats(1000, 8), below(1000, 1000, 8), floats(1000, 8)),
    "ScatterElements add": race("ScatterElements", 1, floats(1000, 8), below(1000, 1000, 8), floats(1000, 8), reduction="add"),
    "ScatterND": race("ScatterND", 1, floats(60, 60, 8), pairs(60, 60), floats(4000, 8)),
    "TensorScatter": race("TensorScatter", 2, floats(64, 4, 100, 8), floats(64, 4, 9, 8), below(90, 64), opset=24),
    "ReverseSequence": race("ReverseSequence", 1, floats(100, 64, 8), below(100, 64)),
    "RoiAlign": race("RoiAlign", 2, IMAGES, BOXES, below(2, 256), output_height=4, output_width=4),
    "RoiAlign boxes": race("RoiAlign", 1, IMAGES, BOXES, below(2, 256), output_height=4, output_width=4),
    "MaxRoiPool": race("MaxRoiPool", 1, IMAGES, ROIS, pooled_shape=[4, 4]),
    "MaxUnpool": race("MaxUnpool", 1, IMAGES, below(2 * 4 * 32 * 32, 2, 4, 16, 16), kernel_shape=[2, 2], strides=[2, 2]),
    "GridSample": race("GridSample", 1, IMAGES, floats(2, 32, 32, 2)),
    "NegativeLogLikelihoodLoss": race("NegativeLogLikelihoodLoss", 1, floats(4000, 8), below(8, 4000)),
    "LSTM backwards": race("LSTM", 4, *LSTM, hidden_size=16, direction="reverse", opset=14),
    "RotaryEmbedding": race("RotaryEmbedding", 1, QUERIES, below(99, 8, 16), floats(99, 8), floats(99, 8), **MS, num_heads=4),
    "GroupQueryAttention": race(
        "GroupQueryAttention",
        5,
        floats(8, 1, 64),
        floats(8, 1, 64),
        floats(8, 1, 64),
        PAST,
        PAST,
        below(63, 8, dtype=np.int32),
        np.array([64], np.int32),
        **MS,
        num_heads=4,
        kv_num_heads=4,
        outputs=3,
    ),
    "MultiHeadAttention mask": race(
        "MultiHeadAttention", 4, QUERIES, QUERIES, QUERIES, None, below(16, 8, dtype=np.int32), **MS, num_heads=4
    ),
    "DecoderMaskedMultiHeadAttention": race(
        "DecoderMaskedMultiHeadAttention",
        9,
        *[floats(8, 1, 64)] * 3,
        None,
        None,
        PAST,
        PAST,
        np.array([60], np.int32),
        np.array([4], np.int32),
        below(4, 2, 4, 64, dtype=np.int32),
        **MS,
        num_heads=4,
        past_present_share_buffer=1,
        outputs=3,
    ),
    "Attention nonpad_kv_seqlen": race(
        "Attention", 6, QUERIES, QUERIES, QUERIES, None, None, None, below(17, 8), opset=24, q_num_heads=4, kv_num_heads=4
    ),
    "EmbedLayerNormalization": race(
        "EmbedLayerNormalization",
        0,
        below(500, 16, 32, dtype=np.int32),
        None,
        floats(500, 32),
        floats(32, 32),
        None,
        floats(32),
        floats(32),
        **MS,
        outputs=2,
    ),
    "TfIdfVectorizer": race(
        "TfIdfVectorizer",
        0,
        below(9, 64, 64),
        max_gram_length=2,
        min_gram_length=1,
        max_skip_count=1,
        mode="TF",
        ngram_counts=[0, 3],
        ngram_indexes=[0, 1, 2, 3],
        pool_int64s=[1, 2, 3, 4, 5],
    ),
    "ArrayFeatureExtractor": race("ArrayFeatureExtractor", 1, floats(64, 100), below(100, 400), domain="ai.onnx.ml"),
    "OneHotEncoder": race("OneHotEncoder", 0, below(9, 4000), domain="ai.onnx.ml", cats_int64s=[*range(9)]),
    "NonZero": race("NonZero", 0, below(3, 40_000)),
    "Compress": race("Compress", 1, floats(4000, 8), below(2, 4000, dtype=np.bool_), axis=0),
    "Unique": race("Unique", 0, below(9, 4000), outputs=4, opset=11),
    "TopK": race("TopK", 0, below(999, 8, 1000, dtype=np.float32), np.array([10]), outputs=2),
    "positions of a sparse tensor": sparse_positions,
}


@pytest.mark.parametrize("name", CASES)
def test_a_feed_that_changes_during_a_run_ends_no_process(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=60) == ""
