"""Where somebody speaks: Silero VAD over a stream of sound, with the state that goes from window to window.

    python examples/voice_activity.py [FILE.wav]

Without a file (16 kHz, 16 bits, mono) it synthesises one: two stretches of vowels in silence, whose times are known. The model
lies in `tests/data/silero`. It sees 32 ms at a time, says how likely speech is, and gives back a state for the next call: a
`Stream` keeps that, the session keeps nothing, so that one session serves as many streams as there are.
"""

import sys
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ort_lite

MODEL = Path(__file__).parents[1] / "tests" / "data" / "silero" / "silero_vad.onnx"
RATE, WINDOW, CONTEXT = 16_000, 512, 64
SPOKEN = ((1.0, 2.5), (3.5, 4.5))
"""Seconds of the synthesised sound in which there are vowels."""
FORMANTS = np.array([(730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240)], float)
"""Hertz at which the mouth resonates: a, e, i, o, u."""

Sound = NDArray[np.float32]
Span = tuple[float, float]


class Stream:
    """One speaker's sound, window after window."""

    def __init__(self, session: ort_lite.InferenceSession) -> None:
        self._session = session
        self._state = np.zeros((2, 1, 128), np.float32)
        self._before = np.zeros(CONTEXT, np.float32)

    def hear(self, window: Sound) -> float:
        """(512,) samples -> how likely it is that they are speech."""
        feeds = {"input": np.concatenate([self._before, window])[None], "state": self._state, "sr": np.array(RATE)}
        likely, self._state = self._session.run(["output", "stateN"], feeds)
        self._before = window[-CONTEXT:]
        return float(likely[0, 0])


def listen(session: ort_lite.InferenceSession, sound: Sound) -> list[float]:
    """(samples,) -> how likely each window of 32 ms is speech."""
    stream = Stream(session)
    return [stream.hear(sound[start : start + WINDOW]) for start in range(0, len(sound) - WINDOW + 1, WINDOW)]


def spans(likely: Sequence[float], begin: float = 0.5, end: float = 0.35) -> Iterator[Span]:
    """(start, end) in seconds: speech begins above `begin`, and goes on until below `end`."""
    start: float | None = None
    for index, value in enumerate([*likely, 0.0]):
        time = index * WINDOW / RATE
        if start is None and value >= begin:
            start = time
        elif start is not None and value < end:
            yield start, time
            start = None


def synthesised() -> Sound:
    """5.3 seconds: vowels at SPOKEN, a little noise everywhere."""
    sound = np.random.default_rng(0).standard_normal(int(5.3 * RATE)) * 0.002
    for start, end in SPOKEN:
        sound[int(start * RATE) : int(end * RATE)] += vowels(end - start)
    return sound.astype(np.float32)


def vowels(seconds: float, syllable: float = 0.18) -> NDArray[np.float64]:
    """A voice of 120 Hz that goes from one vowel to the next, a syllable each: harmonics, louder near the formants."""
    time = np.arange(round(seconds * RATE)) / RATE
    pitch = 120 + 15 * np.sin(2 * np.pi * 0.7 * time) + 8 * np.sin(2 * np.pi * 2.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    index, within = np.divmod(time / syllable, 1)
    order = np.random.default_rng(1).integers(0, len(FORMANTS), int(seconds / syllable) + 2)
    blend = np.clip((within - 0.6) / 0.4, 0, 1)[:, None]
    now, following = (FORMANTS[order[index.astype(int) + step]] for step in (0, 1))
    formants = now * (1 - blend) + following * blend
    voice = np.zeros_like(time)
    for harmonic in range(1, 36):
        resonance = 1 / (1 + ((harmonic * pitch[:, None] - formants) / (80, 110, 160)) ** 2)
        voice += resonance @ (1, 0.6, 0.3) * np.sin(harmonic * phase) / np.sqrt(harmonic)
    voice *= 0.15 + 0.85 * np.sin(np.pi * within) ** 0.7
    loud: NDArray[np.float64] = 0.5 * voice / np.abs(voice).max()
    return loud


def read(path: str) -> Sound:
    """A WAV file as samples from -1 to 1."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 2, 1):
            raise SystemExit(f"{path}: expected {RATE} Hz, 16 bits, mono, got {file.getparams()}")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples.astype(np.float32) / np.float32(32768)


def main() -> None:
    sound = read(sys.argv[1]) if len(sys.argv) > 1 else synthesised()
    session = ort_lite.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    likely = listen(session, sound)
    print(
        f"{len(sound) / RATE:.1f} s of sound in windows of {1000 * WINDOW // RATE} ms, how likely each is speech, from 0 to 9:"
    )
    print("".join(str(int(value * 9.99)) for value in likely))
    for start, end in spans(likely):
        print(f"speech from {start:.2f} s to {end:.2f} s")
    if len(sys.argv) == 1:
        print("vowels are " + " and ".join(f"from {start:.2f} s to {end:.2f} s" for start, end in SPOKEN))


if __name__ == "__main__":
    main()
