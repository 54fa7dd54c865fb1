"""`examples/voice_activity.py`: the times at which it hears speech are those at which there is some."""

import wave
from pathlib import Path

import numpy as np
import pytest

import ort_lite
from examples import voice_activity
from examples.voice_activity import RATE, SPOKEN, WINDOW


@pytest.fixture(scope="module")
def session() -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(voice_activity.MODEL, providers=["CPUExecutionProvider"])


def test_it_hears_the_vowels_where_they_are(session: ort_lite.InferenceSession) -> None:
    found = list(voice_activity.spans(voice_activity.listen(session, voice_activity.synthesised())))
    assert len(found) == len(SPOKEN)
    np.testing.assert_allclose(found, SPOKEN, atol=3 * WINDOW / RATE)


def test_noise_alone_is_no_speech(session: ort_lite.InferenceSession) -> None:
    noise = np.random.default_rng(2).standard_normal(RATE).astype(np.float32) * np.float32(0.02)
    assert not list(voice_activity.spans(voice_activity.listen(session, noise)))


def test_two_streams_of_one_session_do_not_disturb_each_other(session: ort_lite.InferenceSession) -> None:
    sound = voice_activity.synthesised()[RATE // 2 : 2 * RATE]
    alone = voice_activity.listen(session, sound)
    speaks, is_silent = voice_activity.Stream(session), voice_activity.Stream(session)
    together = []
    for start in range(0, len(sound) - WINDOW + 1, WINDOW):
        together.append(speaks.hear(sound[start : start + WINDOW]))
        assert is_silent.hear(np.zeros(WINDOW, np.float32)) < 0.5
    assert together == alone


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    sound, path = voice_activity.synthesised()[:RATE], str(tmp_path / "sound.wav")
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    np.testing.assert_allclose(voice_activity.read(path), sound, atol=2 / 32768)
