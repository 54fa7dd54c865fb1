"""ONNX's backend API, and the examples."""

import numpy as np
import onnx
import pytest

from ort_lite.compat import backend, datasets
from ort_lite.compat.datasets.make import EXAMPLES
from ort_lite.errors import NoSuchFile
from ort_lite.load.proto import serialize


def test_examples_are_what_the_script_makes() -> None:
    for name, make in EXAMPLES.items():
        with open(datasets.get_example(name), "rb") as file:
            assert file.read() == serialize(make())
        onnx.checker.check_model(datasets.get_example(name), full_check=True)
    with pytest.raises(NoSuchFile, match=r"mul_1\.onnx"):
        datasets.get_example("../make.py")


def test_a_model_is_prepared_and_run() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    path = datasets.get_example("mul_1.onnx")
    for model in (path, onnx.load(path), backend.prepare(path), onnx.load(path).SerializeToString()):
        ready = backend.prepare(model, "CPU", intra_op_num_threads=1, no_such_option=1)
        np.testing.assert_array_equal(ready.run(x, logid="a")[0], x * np.arange(1, 7).reshape(3, 2))
        np.testing.assert_array_equal(backend.run(ready, [x])[0], ready.run([x])[0])


def test_the_classifier_of_irises() -> None:
    x = np.array([[1.4, 0.2], [4.5, 1.5], [6.0, 2.2]], np.float32)
    label, maps = backend.run(datasets.get_example("logreg_iris.onnx"), x)
    assert label.dtype == np.int64 and [max(each, key=each.get) for each in maps] == label.tolist()
    assert all(abs(sum(each.values()) - 1) < 1e-6 for each in maps)


def test_what_is_refused() -> None:
    path = datasets.get_example("mul_1.onnx")
    assert backend.supports_device("CPU") and backend.is_compatible(path) and not backend.supports_device("TPU")
    with pytest.raises(RuntimeError, match="not permitted"):
        backend.prepare(path, optimized_model_filepath="/somewhere")
    with pytest.raises(RuntimeError, match="not permitted"):
        backend.prepare(path).run([np.ones((3, 2), np.float32)], terminate=True)
    with pytest.raises(RuntimeError, match="incompatible device"):
        backend.prepare(path, "TPU")
    with pytest.raises(NotImplementedError):
        backend.OrtLiteBackend.run_node(None, [])
