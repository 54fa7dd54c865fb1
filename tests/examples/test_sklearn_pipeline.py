"""`examples/sklearn_pipeline.py`: it says what scikit-learn says, whose answers lie beside the model."""

import numpy as np
import pytest

import ort_lite
from examples import sklearn_pipeline
from examples.sklearn_pipeline import FOLDER


def test_it_says_what_scikit_learn_says() -> None:
    session = ort_lite.InferenceSession(FOLDER / "wine.onnx", providers=["CPUExecutionProvider"])
    with np.load(FOLDER / "wines.npz") as data:
        growers, probabilities = sklearn_pipeline.predict(session, data["wines"])
        assert growers == data["predicted"].tolist()
        assert list(probabilities[0]) == sorted(set(data["growers"]))
        np.testing.assert_allclose([list(row.values()) for row in probabilities], data["probabilities"], atol=1e-6)


def test_it_prints_how_many_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(FOLDER / "wines.npz") as data:
        right = (data["predicted"] == data["growers"]).sum()
    sklearn_pipeline.main()
    assert f"89 wines that the forest has not seen: {right} right, 89 as scikit-learn says" in capsys.readouterr().out
