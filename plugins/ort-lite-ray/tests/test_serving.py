"""Models on Ray Serve, asked by tritonclient as it is."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import ray
from onnx import TensorProto, helper, numpy_helper
from ort_lite_ray.rows import Array
from ort_lite_ray.serving import GRPC, build, deploy
from ort_lite_ray.testing import workers
from ort_lite_serve import Batching, Limits
from ray import serve
from ray.serve.config import HTTPOptions, gRPCOptions
from tritonclient import http
from tritonclient.utils import InferenceServerException

import ort_lite
from ort_lite.errors import InvalidArgument

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL = str(DIGITS / "digits_cnn.onnx")
SMALL: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0.1}}
SOON: dict[str, Any] = {"health_check_period_s": 0.5, "health_check_timeout_s": 5}


@pytest.fixture(scope="module")
def ports(ray_cluster: None) -> Iterator[dict[str, int]]:
    """The digits as application "digits" with batches, and once more, without, behind all other paths."""
    found = {"http": _free(), "grpc": _free()}
    serve.start(
        http_options=HTTPOptions(port=found["http"]),
        grpc_options=gRPCOptions(port=found["grpc"], grpc_servicer_functions=[GRPC]),
    )
    batches = deploy(MODEL, batching=Batching(max_batch=64, max_wait=0.02), limits=Limits(batch=100), **SMALL, **SOON)
    serve.run(batches, name="digits", route_prefix="/v2/models/digits_cnn")
    serve.run(deploy(MODEL, **SMALL), name="others", route_prefix="/")
    yield found
    serve.shutdown()


@pytest.fixture
def client(ports: dict[str, int]) -> Iterator[Any]:
    with http.InferenceServerClient(f"127.0.0.1:{ports['http']}", concurrency=8) as made:
        yield made


@pytest.fixture(scope="module")
def images() -> Array:
    found: Array = np.load(DIGITS / "test_images.npz")["images"][:40]
    return found


def _free() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def given(array: Array, name: str = "images", datatype: str = "UINT8", **more: Any) -> list[Any]:
    made = http.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **more)
    return [made]


def alone(images: Array) -> Any:
    return ort_lite.InferenceSession(MODEL, providers=["CPUExecutionProvider"]).run(None, {"images": images})[0]


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not true after {seconds} s"
        time.sleep(0.1)


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits_cnn")
    assert client.get_server_metadata()["name"] == "ort-lite"
    assert client.get_model_metadata("digits_cnn")["inputs"] == [
        {"name": "images", "datatype": "UINT8", "shape": [-1, 1, 8, 8]}
    ]


@pytest.mark.parametrize("binary", [True, False])
def test_infer(binary: bool, client: Any, images: Array) -> None:
    wanted = [http.InferRequestedOutput("probabilities", binary_data=binary)]
    answer = client.infer("digits_cnn", given(images, binary_data=binary), outputs=wanted)
    np.testing.assert_allclose(answer.as_numpy("probabilities"), alone(images), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "array", "datatype", "said"),
    [
        ("none", np.zeros((1, 1, 8, 8), np.uint8), "UINT8", "no model 'none'; there are digits_cnn"),
        ("digits_cnn", np.zeros((1, 1, 8, 8), np.float32), "FP32", "digits_cnn takes uint8"),
        ("digits_cnn", np.zeros((101, 1, 8, 8), np.uint8), "UINT8", "101 rows; this server takes 100"),
    ],
)
def test_what_is_refused_is_told(name: str, array: Array, datatype: str, said: str, client: Any) -> None:
    with pytest.raises(InferenceServerException, match=said):
        client.infer(name, given(array, datatype=datatype))


def test_grpc(ports: dict[str, int], images: Array) -> None:
    """In a process of its own: the client's messages have the names of the server's."""
    script = [sys.executable, str(Path(__file__).with_name("grpc_client.py")), str(ports["grpc"])]
    found = json.loads(
        subprocess.run(
            script, check=True, capture_output=True, text=True, input=json.dumps(images.tolist()), timeout=240
        ).stdout
    )
    np.testing.assert_allclose(found["probabilities"], alone(images), rtol=1e-5, atol=1e-6)
    assert found["ready"] == [True, True, True]
    assert found["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": ["-1", "1", "8", "8"]}]
    codes, texts = zip(*found["errors"], strict=True)
    assert codes == ("StatusCode.NOT_FOUND", "StatusCode.INVALID_ARGUMENT")
    assert "no model 'none'" in texts[0]
    assert "takes uint8" in texts[1]


def test_requests_are_joined_and_ray_counts_them(client: Any, images: Array) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda k: client.infer("digits_cnn", given(images[k % 40 : k % 40 + 1])), range(160)))
    for k, answer in enumerate(answers):
        np.testing.assert_allclose(answer.as_numpy("probabilities")[0], alone(images)[k % 40], rtol=1e-5, atol=1e-6)
    until(lambda: _exported("ort_lite_requests_total") >= 160)
    assert 0 < _exported("ort_lite_batch_requests_count") < 0.75 * _exported("ort_lite_requests_total")


def _exported(name: str) -> float:
    """Of all replicas of the application "digits"."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"ray_{name}{{") and 'application="digits"' in line)


def test_a_replica_that_dies_is_made_anew(client: Any, images: Array) -> None:
    (victim,) = workers("ray::ServeReplica:digits:")
    os.kill(victim, signal.SIGKILL)

    def answered() -> bool:
        try:
            np.testing.assert_allclose(
                client.infer("digits_cnn", given(images)).as_numpy("probabilities"), alone(images), atol=1e-6
            )
        except InferenceServerException:
            return False
        return True

    until(answered)
    assert workers("ray::ServeReplica:digits:") != [victim]


def slow(path: Path) -> Path:
    """Products of 512 x 512, as many as it is fed, 3 ms each or so; its weights are a mebibyte."""
    text = """<ir_version: 10, opset_import: ["": 21]> slow (int64 many, float[1,512] x) => (float[1,512] y)
        { y = Loop(many, , x) <body = body (int64 i, bool c, float[1,512] v) => (bool d, float[1,512] u)
          { d = Identity(c) s = Add(w, v) p = MatMul(s, w) q = ReduceMax(p, zero) u = Tanh(q) }> }"""
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32) / 512
    model.graph.initializer.extend(
        [numpy_helper.from_array(weights, "w"), helper.make_tensor("zero", TensorProto.INT64, [1], [0])]
    )
    onnx.save(model, path)
    return path


def test_replicas_come_with_load_share_weights_and_answer_before_they_go(client: Any, tmp_path: Path) -> None:
    path = slow(tmp_path / "slow.onnx")
    scaling = {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 1, "upscale_delay_s": 0.2}
    serve.run(deploy(str(path), autoscaling_config=scaling, **SMALL, **SOON), name="slow", route_prefix="/v2/models/slow")
    x = np.ones((1, 512), np.float32)
    (expected,) = ort_lite.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(
        None, {"many": np.array(200), "x": x}
    )

    def ask(_: int) -> None:
        many = given(np.array(200), "many", "INT64")
        answer = client.infer("slow", [*many, *given(x, "x", "FP32")])
        np.testing.assert_allclose(answer.as_numpy("y"), expected, rtol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, k) for k in range(4)]

        def two() -> bool:
            asked.extend(pool.submit(ask, 0) for _ in range(4 - sum(not one.done() for one in asked)))
            return len(_running("slow")) == 2

        until(two)
        held = [_weights(pid) for pid in _running("slow")]
        assert held[0] == held[1] != set()
        asked.extend(pool.submit(ask, 0) for _ in range(4))
        time.sleep(0.2)
        begun = [one for one in asked if one.running()]
        serve.delete("slow")
        assert begun
        for one in begun:
            one.result(60)


def _running(application: str) -> list[int]:
    """Process ids of replicas that take requests."""
    deployments = serve.status().applications[application].deployments.values()
    count = sum(deployment.replica_states.get("RUNNING", 0) for deployment in deployments)
    found = workers(f"ray::ServeReplica:{application}:")
    return found if len(found) == count else []


def _weights(pid: int) -> set[str]:
    """Files of weights that a process maps."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if "ort-lite-ray-weights" in line}


def test_config_files() -> None:
    """Of the page of the plugin, each application as Serve would build it."""
    import yaml
    from ray.serve.schema import ServeDeploySchema

    text = (Path(__file__).parents[1] / "README.md").read_text()
    found = ServeDeploySchema.model_validate(yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0]))
    assert [one.route_prefix for one in found.applications] == ["/v2/models/digits_cnn", "/"]
    assert found.grpc_options.grpc_servicer_functions == [GRPC]
    for one in found.applications:
        assert one.import_path == f"{build.__module__}:{build.__name__}"
        assert isinstance(build(dict(one.args)), serve.Application)
    with pytest.raises(InvalidArgument, match=r"args has no 'model'.*models"):
        build({"model": MODEL})
    with pytest.raises(InvalidArgument, match="args needs models"):
        build({})
