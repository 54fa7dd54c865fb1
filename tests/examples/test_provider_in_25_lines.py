"""`examples/provider_in_25_lines.py`: it has 25 lines, takes what it says, and reads digits as well as the CPU provider."""

from pathlib import Path

import numpy as np
import onnx.parser

import ort_lite
from examples import provider_in_25_lines
from examples.provider_in_25_lines import FOLDER, NumpyExecutionProvider


def test_it_has_25_lines() -> None:
    _, rest = Path(provider_in_25_lines.__file__).read_text(encoding="utf-8").split("# The provider, from here ...\n")
    assert len(rest.split("# ... to here.")[0].strip().splitlines()) <= 25


def test_it_reads_what_the_cpu_provider_reads() -> None:
    model = FOLDER / "digits_cnn.onnx"
    both = ort_lite.InferenceSession(model, providers=[NumpyExecutionProvider, "CPUExecutionProvider"])
    alone = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    with np.load(FOLDER / "test_images.npz") as data:
        read = provider_in_25_lines.digits(both, data["images"])
        assert (read == provider_in_25_lines.digits(alone, data["images"])).all()
        assert (read == data["labels"]).mean() >= 0.98


def test_it_runs_what_it_has_kernels_for() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[N, 4] x) => (float[N, 4] y)
    { a = Add(x, x)  b = Sub(a, x)  c = Mul(b, b)  d = Relu(c)  y = Softmax(d) }"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=[NumpyExecutionProvider])
    (y,) = session.run(None, {"x": np.array([[-1, 0, 1, 2]], np.float32)})
    powers = np.exp([[1.0, 0, 1, 4]])
    np.testing.assert_allclose(y, powers / powers.sum(), rtol=1e-6)
