"""Silero VAD: nested Ifs that capture outer values, LSTM, and a state that goes from call to call."""

from pathlib import Path

import numpy as np
import pytest

from ort_lite.dtypes import Array
from tests.models.beside_onnxruntime import assert_same, ours, theirs

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parents[1] / "data" / "silero" / "silero_vad.onnx"
STEPS = 24


def sound(rate: int, samples: int, batch: int) -> Array:
    """(batch, samples): a buzz of 130 Hz, filtered like a vowel, that comes and goes; every row begins elsewhere."""
    time = np.arange(samples)[None, :] / rate + 0.3 * np.arange(batch)[:, None]
    harmonics = np.arange(1, 12)[:, None, None] * 130
    vowel = (np.exp(-(((harmonics - 700) / 300) ** 2)) * np.sin(2 * np.pi * harmonics * time)).sum(0)
    noise = np.random.default_rng(0).standard_normal(time.shape)
    loudness = np.clip(np.sin(2 * np.pi * 2.5 * time), 0, 1)
    heard: Array = (0.2 * loudness * vowel + 0.002 * noise).astype(np.float32)
    return heard


@pytest.mark.parametrize(("rate", "window", "context"), [(16000, 512, 64), (8000, 256, 32)])
@pytest.mark.parametrize("batch", [1, 3])
def test_many_steps_with_their_state_give_what_onnxruntime_gives(rate: int, window: int, context: int, batch: int) -> None:
    session, reference = ours(MODEL), theirs(MODEL)
    heard = np.concatenate([np.zeros((batch, context), np.float32), sound(rate, STEPS * window, batch)], axis=1)
    state = np.zeros((2, batch, 128), np.float32)
    speech = []
    for step in range(STEPS):
        part = heard[:, step * window : (step + 1) * window + context]
        feeds = {"input": part, "state": state, "sr": np.array(rate, np.int64)}
        probability, state = assert_same(session, reference, feeds, f"step {step}:")
        speech.append(probability)
    assert np.ptp(speech) > 0.1, "the probability tells nothing"


def test_one_session_takes_both_rates_and_any_batch_in_turn() -> None:
    session, reference = ours(MODEL), theirs(MODEL)
    for rate, samples, batch in [(16000, 576, 1), (8000, 288, 2), (16000, 576, 4), (8000, 288, 2), (16000, 576, 1)]:
        state = np.full((2, batch, 128), 0.1, np.float32)
        feeds = {"input": sound(rate, samples, batch), "state": state, "sr": np.array(rate, np.int64)}
        assert_same(session, reference, feeds, f"{rate} Hz, batch {batch}:")


def test_nothing_runs_in_python() -> None:
    assert ours(MODEL).explain().python_steps == 0
