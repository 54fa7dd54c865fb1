"""Sessions for tests of prepared programs: a model that is folded, fused, packed and read by bodies, and the reports of creation."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import ort_lite
from ort_lite.native import store
from ort_lite.provider import seeds
from ort_lite.session import created

MODEL = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
main (float[N, 16, H, 12] x, int64[K] picked) => (float[N, F] y, float[N, 24, P, Q] z) {
    c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w)
    b = BatchNormalization(c, scale, shift, mean, variance)
    z = Relu(b)
    p = GlobalAveragePool(z)
    f = Flatten(p)
    t = Transpose<perm=[1, 0]>(turned)
    g = Gemm(f, t, bias)
    h = Gelu<approximate="tanh">(g)
    total = ReduceSum<keepdims=0>(h)
    zero = Constant<value=float {0.0}>()
    positive = Greater(total, zero)
    y = If(positive)<then_branch=then () => (float[N, F] a) { a = Gather<axis=1>(h, picked) },
                     else_branch=otherwise () => (float[N, F] a) { m = MatMul(h, square) a = Gather<axis=1>(m, picked) }>
}"""
SHAPES = {"w": (24, 16, 3, 3), "scale": (24,), "shift": (24,), "mean": (24,), "variance": (24,), "turned": (64, 24)}
SHAPES |= {"bias": (64,), "square": (64, 64)}


def model(seed: int = 0) -> bytes:
    """Return a model whose weights, the large ones by the seed, are folded, fused, packed and read by bodies."""
    made, rng, other = onnx.parser.parse_model(MODEL), np.random.default_rng(0), np.random.default_rng(seed)
    for name, shape in SHAPES.items():
        array = (other if np.prod(shape) > 1000 else rng).standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(abs(array) if name == "variance" else array, name))
    data: bytes = made.SerializeToString()
    return data


def feeds(n: int = 2, h: int = 9) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    return {"x": rng.standard_normal((n, 16, h, 12)).astype(np.float32), "picked": np.array([3, 1, 60])}


def store_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have every session store, in a folder of the test's own. No seed is left of another test."""
    monkeypatch.setattr(seeds, "_seed", [])
    monkeypatch.setattr(store, "directory", lambda: str(folder))
    monkeypatch.setattr(created, "WORTH_SECONDS", 0.0)
    return folder


def session(source: Any, prepared: str = "1", **entries: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    for name, value in {"ort_lite.prepared": prepared, "ort_lite.creation_trace": "1", **entries}.items():
        options.add_session_config_entry(name.replace("__", "."), value)
    return ort_lite.InferenceSession(source, options)


def found(made: ort_lite.InferenceSession) -> str:
    """Return what the creation report says of reading a prepared program."""
    assert made.creation_trace is not None
    return next((str(event.facts["found"]) for event in made.creation_trace.events if "found" in event.facts), "")


def stored(made: ort_lite.InferenceSession) -> str:
    assert made.creation_trace is not None
    return next((str(event.facts["stored"]) for event in made.creation_trace.events if "stored" in event.facts), "")


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    return bool(left == right)
