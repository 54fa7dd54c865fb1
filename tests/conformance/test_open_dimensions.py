"""ONNX's node tests with every dimension of every input open, each with a name of its own: nothing may be taken for granted.

A kernel that believes two open dimensions to be equal, or one of them not to be 1, reads beyond its operands here.
"""

from typing import Any

import pytest

import ort_lite
from ort_lite.testing.cases import Case, node_cases
from ort_lite.testing.differences import compare

pytestmark = pytest.mark.slow

BATCHES = 8


def opened(case: Case) -> Any:
    model = type(case.model)()
    model.CopyFrom(case.model)
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    for k, dim in enumerate(dims):
        dim.dim_param = f"d{k}"
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("batch", range(BATCHES))
def test_node_cases_with_open_dimensions(batch: int) -> None:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    cases = [case for case in node_cases() if not case.name.endswith("_expanded")]
    wrong = []
    for case in cases[batch::BATCHES]:
        session = ort_lite.InferenceSession(opened(case).SerializeToString(), options, providers=["CPUExecutionProvider"])
        text = compare(session.run(None, dict(case.feed)), case.expected, case.rtol, case.atol)
        if text is not None:
            wrong.append(f"{case.name}: {text}")
    assert not wrong


def test_there_are_cases() -> None:
    assert len(node_cases()) > 1000
