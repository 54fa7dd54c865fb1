"""BifurcationDetector, against onnxruntime."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ort_lite
from ort_lite.errors import InvalidArgument, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from tests.cpu.check import ints, run_op
from tests.cpu.ort import ort_op

OP = "BifurcationDetector"
HOW: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


@settings(max_examples=60)
@given(st.lists(st.integers(0, 2), min_size=3, max_size=9), st.lists(st.integers(0, 2), min_size=1, max_size=4), st.data())
def test_any_tokens(source: list[int], current: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(source)))
    size = len(source) + 1 - start
    guess = data.draw(st.none() | st.lists(st.integers(0, 2), min_size=size, max_size=size))
    shortest = data.draw(st.integers(1, 3))
    attributes = {"min_ngram_size": shortest, "max_ngram_size": shortest + data.draw(st.integers(0, 2))}
    before = ints(start).reshape(data.draw(st.sampled_from([(), (1,)])))
    inputs = [ints(*source), ints(*current), before, None if guess is None else ints(*guess)]
    want = ort_op(OP, inputs, attributes, outputs=("int64", "int64"), **HOW)
    got = run_op(OP, inputs, attributes, outputs=2, **HOW)
    assert [array.shape for array in got] == [array.shape for array in want]
    assert [array.tolist() for array in got] == [array.tolist() for array in want]


def test_a_guess_of_another_length_is_refused() -> None:
    with pytest.raises(RuntimeException, match="pred_tokens has 2 tokens, src_tokens 3, and prev_suffix_match_idx is 0"):
        run_op(OP, [ints(1, 2, 3), ints(1), ints(0), ints(1, 2)], {}, outputs=2, **HOW)


@pytest.mark.parametrize("least", [0, -(2**62), 4])
def test_sizes_of_no_ngram_are_refused(least: int) -> None:
    sizes = {"min_ngram_size": least, "max_ngram_size": 3}
    with pytest.raises(NotSupported, match=f"min_ngram_size {least}, max_ngram_size 3"):
        run_op(OP, [ints(1, 2, 3), ints(1), ints(0)], sizes, outputs=2, **HOW)


@pytest.mark.parametrize("fixed", [False, True])
def test_there_is_one_place_to_begin_at(fixed: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"prev_suffix_match_idx, .*has 0 elements"):
        run_op(OP, [ints(1, 2, 3), ints(1), ints()], {}, outputs=2, fixed=fixed, **HOW)


@pytest.mark.parametrize("start", [-1, 4, 2**63 - 1, -(2**63)])
def test_a_guess_that_begins_outside_of_the_source_is_refused(start: int) -> None:
    with pytest.raises(RuntimeException, match=f"prev_suffix_match_idx is {start}"):
        run_op(OP, [ints(1, 2, 3), ints(1), ints(start), ints(1)], {}, outputs=2, **HOW)


def test_tokens_whose_rank_only_the_run_tells() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (int64[n] source, int64[] current, int64[1] start, int64[] guess) => (int64[] tokens, int64[] suffix) {
        tokens, suffix = com.microsoft.BifurcationDetector(source, current, start, guess) }"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    feeds = {"source": ints(1, 5, 3, 4), "current": ints(9, 8, 7), "start": ints(0), "guess": ints(1, 5, 3, 4, 2)}
    assert np.asarray(session.run(None, feeds)[0]).tolist() == [9, 8, 7, 1, 5, 3, 4, 2]
