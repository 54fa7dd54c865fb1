"""NGramHashMapping and VarlenNGramHashMapping, against onnxruntime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import check_op, run_op
from tests.cpu.operators.test_microsoft_forms import HOW
from tests.cpu.ort import ort_op

HASHES = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 7}
OFFSETS = (0, 1, 4, 9)


def ids(*shape: int, dtype: str = "int64", seed: int = 0, high: int = 5) -> Array:
    return np.random.default_rng([seed, *shape]).integers(0, high, shape).astype(dtype)


def tables(dtype: str) -> tuple[Array, Array, Array]:
    """Return factors, vocabularies and shifts. The products wrap."""
    factors = np.array([0x5DEECE66D, -0x3C6EF372FE94F82B, 0x27D4EB2F165667C5, 3]).astype(dtype)
    return factors, np.array([11, 13, 1009, 17], dtype), np.array([0, 11, 24, 1033], dtype)


def check(op_type: str, inputs: Sequence[Array | None], outputs: tuple[str, ...], **attributes: Any) -> None:
    given = HASHES | attributes
    want = ort_op(op_type, inputs, given, outputs=outputs, **HOW)
    check_op(op_type, *inputs, expected=want, outputs=len(outputs), **given, **HOW)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(2, 6), (1, 1), (3, 2), (2, 0)])
def test_hashes(shape: tuple[int, int], dtype: str) -> None:
    x, (factors, vocabularies, shifts) = ids(*shape, dtype=dtype), tables(dtype)
    past, stop, segments = ids(shape[0], 2, dtype=dtype, seed=1), np.array(3, dtype), ids(*shape, dtype="int32", seed=2, high=2)
    plain = [x, factors, vocabularies]
    check("NGramHashMapping", plain, (dtype,))
    check("NGramHashMapping", [*plain, past], (dtype, dtype))
    check("NGramHashMapping", [*plain, None, shifts], (dtype, dtype))
    for reset in (0, 1):
        check("NGramHashMapping", [*plain, None, shifts, stop], (dtype, dtype), reset_on_eos=reset)
        check("NGramHashMapping", [*plain, past, None, stop, segments], (dtype, dtype), reset_on_eos=reset)
    check("NGramHashMapping", [*plain, past, None, None, segments], (dtype,), reset_on_eos=1)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_hashes_of_packed_requests(dtype: str) -> None:
    x, (factors, vocabularies, shifts), offsets = ids(9, dtype=dtype), tables(dtype), np.array(OFFSETS, np.int32)
    past, segments, stop = ids(3, 2, dtype=dtype, seed=1), ids(9, dtype="int32", seed=2, high=2), np.array(3, dtype)
    old, counts = ids(3, 2, dtype="int32", seed=3, high=2), np.array([3, 0, 2], np.int32)
    plain, full = [x, factors, vocabularies, offsets], (dtype, dtype, "int32", dtype)
    check("VarlenNGramHashMapping", plain, (dtype, dtype))
    check("VarlenNGramHashMapping", [*plain, past, shifts], (dtype, dtype))
    check("VarlenNGramHashMapping", [*plain, past, None, stop, segments], full[:3], reset_on_eos=1)
    check("VarlenNGramHashMapping", [*plain, past, None, stop, segments, old], full[:3], reset_on_eos=1)
    check("VarlenNGramHashMapping", [*plain, past, None, stop, segments, old, counts], full, state_update_capacity=4)
    check("VarlenNGramHashMapping", [*plain, None, None, None, segments, None, counts], full, state_update_capacity=2)


@pytest.mark.parametrize("offsets", [(0, 4, 2, 9), (1, 4, 9), (0, 4, 8), (0, 4, 4, 9), (0, -3, 9), (0, 400, 9)])
def test_offsets_that_are_no_requests(offsets: tuple[int, ...]) -> None:
    factors, vocabularies, _ = tables("int64")
    with pytest.raises(InvalidArgument, match="of 9 tokens; expected one or more tokens, in order"):
        run_op("VarlenNGramHashMapping", [ids(9), factors, vocabularies, np.array(offsets, np.int32)], HASHES, outputs=2, **HOW)


def test_vocabularies_are_positive() -> None:
    factors, vocabularies, _ = tables("int64")
    vocabularies[2] = 0
    with pytest.raises(InvalidArgument, match=r"vocab_sizes\[2\] is 0"):
        run_op("NGramHashMapping", [ids(2, 3), factors, vocabularies], HASHES, outputs=1, **HOW)


def test_attributes_that_are_no_sizes() -> None:
    with pytest.raises(NotSupported, match="max_ngram_size 1"):
        run_op("NGramHashMapping", [ids(2, 3), *tables("int64")[:2]], HASHES | {"max_ngram_size": 1}, outputs=1, **HOW)
