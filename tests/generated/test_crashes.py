"""Each node with which onnxruntime is said to end the process does so, in a process of its own."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from tests.generated.defects import crash, crash_at_load
from tests.generated.oracles import of_onnxruntime
from tests.generated.verdict import Verdict
from tests.generated.workers import Task, Worker

pytestmark = pytest.mark.slow
EMPTY, ROWS = np.zeros((1, 0, 2), np.float32), np.zeros((2, 0, 3), np.float32)
CRASHES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "LayerNormalization before opset 17 in a function": (
        "(float[2,3] x, float[3] s) => (float[2,3] y) { y = local.Norm(x, s) }"
        '<domain: "local", opset_import: ["": 13]> Norm (x, s) => (y) { y = LayerNormalization(x, s) }',
        {"x": np.ones((2, 3), np.float32), "s": np.ones(3, np.float32)},
    ),
    "LayerNormalization before opset 17 in a body in a function": (
        "(bool go, float[2,3] x, float[3] s) => (float[2,3] y) { y = local.Norm(go, x, s) }"
        '<domain: "local", opset_import: ["": 13]> Norm (go, x, s) => (y) { y = If(go) <then_branch = a () => (float[2,3] p)'
        "{ p = LayerNormalization(x, s) }, else_branch = b () => (float[2,3] q) { q = Identity(x) }> }",
        {"go": np.array(True), "x": np.ones((2, 3), np.float32), "s": np.ones(3, np.float32)},
    ),
    "GRU": (
        "(float[2,N,3] x, float[1,12,3] w, float[1,12,4] r) => (float[2,1,N,4] y) { y = GRU<hidden_size=4>(x, w, r) }",
        {"x": ROWS, "w": np.zeros((1, 12, 3), np.float32), "r": np.zeros((1, 12, 4), np.float32)},
    ),
    "RandomNormalLike": ("(float[1,N,2] x) => (float[1,N,2] y) { y = RandomNormalLike<scale=0.0>(x) }", {"x": EMPTY}),
    "QLinearSigmoid": (
        "(uint8[2] x, float s, uint8 z) => (uint8[2] y) { y = com.microsoft.QLinearSigmoid(x, s, z, s) }",
        {"x": np.zeros(2, np.uint8), "s": np.float32(1), "z": np.uint8(0)},
    ),
    "QLinearWhere": (
        "(bool[2] c, uint8[2] x, float s, uint8 z) => (uint8[2] y) <float one = {1}, uint8 none = {0}>"
        "{ y = com.microsoft.QLinearWhere(c, x, s, z, x, s, z, one, none) }",
        {"c": np.ones(2, np.bool_), "x": np.zeros(2, np.uint8), "s": np.float32(1), "z": np.uint8(0)},
    ),
    "Einsum": (
        '(float[N,2,M] x) => (float[2] y) { y = Einsum<equation="c...e->...">(x) }',
        {"x": np.zeros((0, 2, 0), np.float32)},
    ),
    "Unique": ("(float[1,N,2] x) => (float[1,N,2] y) { y = Unique<axis=0>(x) }", {"x": EMPTY}),
}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    one = Worker(lambda model, feeds, thorough: of_onnxruntime(model, feeds))
    yield one
    one.stop()


@pytest.mark.parametrize("name", CRASHES)
def test_onnxruntime_ends_the_process(worker: Worker, name: str) -> None:
    text, feeds = CRASHES[name]
    opset = 13 if "function" in name else 18
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1, "local": 1]> main {text}'
    )
    found: Any = worker.verdict(Task(0, model.SerializeToString(), _arrays(feeds)))
    assert isinstance(found, Verdict), f"an answer: {found}"
    assert "the process died" in found.differences[0].text
    assert (crash_at_load(model) or crash(model, feeds)).startswith("crashes")


def _arrays(feeds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in feeds.items()}
