"""Sessions, `plan`, `dump` and `measure_costs` take a model through the same stages, and say the same of it."""

import json
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.options import SessionOptions
from ort_lite.session.preparation import Arguments, disable, prepare_until
from ort_lite.tools.verify.measure import measure_costs
from tests.provider.numpy_provider import CpuStandIn

OVERRIDABLE = """<ir_version: 8, opset_import: ["" : 17]>
main (float[3] x, float[3] a) => (float[3] y) <float[3] a = {1, 2, 3}, float[3] b = {1, 1, 1}> { s = Add(a, b)  y = Mul(x, s) }"""
"""What is known of `a` folds the Add: as sessions run it mostly."""


def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(OVERRIDABLE)


def test_everybody_partitions_the_same_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = ort_lite.InferenceSession(model(), providers=[CpuStandIn()])
    expected = [node.op_type for p in session.explain().assignment.partitions for node in p.nodes]
    assert expected == ["Mul"]
    planned = ort_lite.plan(model(), [CpuStandIn()])
    assert [node.op_type for p in planned.assignment.partitions for node in p.nodes] == expected
    path = tmp_path / "model.onnx"
    path.write_bytes(model().SerializeToString())
    main(["dump", str(path), "--stage", "partition", "--json"])
    assert [row["operator"] for row in json.loads(capsys.readouterr().out)["nodes"]] == expected
    costs = measure_costs(model(), {"x": np.ones(3, np.float32)}, [CpuStandIn()], runs=1)
    assert [len(found) for found in costs.nodes.values()] == [1]


def test_stages_that_are_not_asked_for_make_nothing() -> None:
    given = Arguments([CpuStandIn()])
    loaded = prepare_until("load", model(), SessionOptions(), given)
    assert (loaded.report, loaded.assignment) == (None, None)
    assert [node.op_type for node in loaded.loaded.model.graph] == ["Add", "Mul"]
    assert [value.name for value in loaded.loaded.model.graph.inputs] == ["x"]
    assert loaded.loaded.overridable is not None
    assert [value.name for value in loaded.loaded.overridable.graph.inputs] == ["x", "a"]
    transformed = prepare_until("transform", model(), SessionOptions(), given)
    assert transformed.report is not None
    assert transformed.assignment is None
    assert [node.op_type for node in transformed.loaded.model.graph] == ["Mul"]


def test_what_a_session_disables_a_plan_of_its_arguments_disables() -> None:
    options = SessionOptions()
    disable(options, ["fold_constants", "fold_known_contents"])
    prepared = prepare_until("partition", model(), options, Arguments([CpuStandIn()]))
    assert prepared.assignment is not None
    assert [node.op_type for p in prepared.assignment.partitions for node in p.nodes] == ["Add", "Mul"]
