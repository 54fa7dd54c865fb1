"""Whole models in onnxruntime with providers of ort-lite: a sentence encoder, an image network, a voice detector."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.inside_onnxruntime import OWN, RELEASE, PlainExecutionProvider, register, registered, report, session, taken
from tests.models.beside_onnxruntime import assert_close, theirs
from tests.models.light_models import image, randomised
from tests.models.test_minilm import model as minilm
from tests.models.test_minilm import tokens
from tests.models.test_silero import MODEL as SILERO
from tests.models.test_silero import sound

NAMES = [OWN, "AcceleratorExecutionProvider", PlainExecutionProvider.name]


@pytest.fixture(scope="module", autouse=True)
def plain() -> Iterator[None]:
    with registered(PlainExecutionProvider):
        yield


def compared(inside: Any, alone: Any, feeds: dict[str, Any], what: str) -> list[Any]:
    names = [output.name for output in alone.get_outputs()]
    got = inside.run(names, feeds)
    assert_close(names, got, alone.run(names, feeds), what)
    return list(got)


@pytest.mark.parametrize("name", NAMES)
def test_minilm(name: str) -> None:
    inside, alone = session(minilm(), register(name), optimise=True), theirs(minilm())
    for batch, length in ((1, 7), (1, 128), (3, 20), (1, 7)):
        compared(inside, alone, tokens(batch, length), f"{batch} of length {length}:")
    if name == OWN:
        assert not report(name).declined
    assert taken(name)


@pytest.mark.parametrize("name", NAMES)
def test_resnet50(name: str) -> None:
    source = randomised("resnet50")
    inside, alone = session(source, register(name)), theirs(source)
    assert len(taken(name)) > (10 if name == PlainExecutionProvider.name else 100)
    scores = compared(inside, alone, {alone.get_inputs()[0].name: image()}, "resnet50:")[-1]
    assert np.ptp(scores) > 0.1, "the outputs tell nothing"


@pytest.mark.parametrize("name", NAMES)
def test_silero(name: str) -> None:
    inside, alone = session(str(SILERO), register(name)), theirs(str(SILERO))
    state = np.zeros((2, 2, 128), np.float32)
    for step, (rate, samples) in enumerate(((16000, 576), (16000, 576), (8000, 288))):
        feeds = {"input": sound(rate, samples, 2), "state": state, "sr": np.array(rate, np.int64)}
        _, state = compared(inside, alone, feeds, f"step {step}:")
    assert np.abs(state).max() > 0.01, "the state tells nothing"
    if name == OWN and RELEASE >= (1, 27):
        assert not report(name).declined
