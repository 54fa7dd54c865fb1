"""`examples/transform_plugin.py`: the rule fires where it is right, and says why not where it is not."""

from collections.abc import Iterator

import numpy as np
import onnx.parser
import pytest

import ort_lite
from examples import transform_plugin
from examples.transform_plugin import PLUGIN

X = [0.0, 60.0, 120.0]


@pytest.fixture
def registered() -> Iterator[None]:
    ort_lite.register_plugin(PLUGIN)
    yield
    ort_lite.unregister_plugin(PLUGIN)


def test_without_the_rule_the_result_is_infinite() -> None:
    assert transform_plugin.operators_and_result(X) == (["Neg", "Softmax", "Log"], [0.0, -60.0, -np.inf])


@pytest.mark.usefixtures("registered")
def test_with_the_rule_it_is_right() -> None:
    operators, y = transform_plugin.operators_and_result(X)
    assert operators == ["Neg", "LogSoftmax"]
    np.testing.assert_allclose(y, [0, -60, -120], atol=1e-6)


@pytest.mark.usefixtures("registered")
def test_a_softmax_that_others_read_stays() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[N, 3] x) => (float[N, 3] likely, float[N, 3] y)
    { likely = Softmax<axis = -1>(x)  y = Log(likely) }"""
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    assert {place.node.op_type for place in session.explain().assignment.placements.values()} == {"Softmax", "Log"}


def test_the_example_leaves_no_rule_behind(capsys: pytest.CaptureFixture[str]) -> None:
    transform_plugin.main()
    assert "-120.0]" in capsys.readouterr().out
    assert transform_plugin.operators_and_result(X)[1][2] == -np.inf
