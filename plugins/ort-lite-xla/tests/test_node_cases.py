"""Node cases of ONNX's backend test suite whose operands must be constants to be taken; the conformance kit runs the others."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import ort_lite_xla.operators  # noqa: F401  # fills the registry
import pytest
from onnx import ModelProto, numpy_helper
from onnx.backend.test.case import node as node_cases
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.registry import TABLE

import ort_lite
from ort_lite.testing.cases import ROUNDED

OPERATORS = sorted(op_type for domain, op_type in TABLE if not domain)
WITHOUT_CASES = {"GlobalLpPool", "SimplifiedLayerNormalization"}  # test_beside_cpu.py has them
LIMITS = {"attribute", "type"}
RESOLUTION = {"float16": 2e-3, "bfloat16": 2e-2}
"""Two units in the last place: the suite rounds after other steps than XLA."""


class Case(NamedTuple):
    """One node with its inputs, the expected outputs and how far they may be off."""

    name: str
    model: ModelProto
    inputs: Mapping[str, Any]
    outputs: list[Any]
    rtol: float
    atol: float


@pytest.fixture(scope="module")
def suite() -> dict[str, list[Case]]:
    """The cases of a single node, by operator; expansions of functions say the same in other words."""

    def array(data: Any) -> Any:
        return numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else data

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes infinities on purpose
        found = node_cases.collect_testcases(None)
    made: dict[str, list[Case]] = {}
    for case in found:
        if case.name.removeprefix("test_") in ROUNDED:
            continue
        if case.model is not None and len(case.model.graph.node) == 1 and case.data_sets:
            inputs, outputs = case.data_sets[0]
            feeds = dict(zip((value.name for value in case.model.graph.input), map(array, inputs), strict=True))
            one = Case(case.name, case.model, feeds, list(map(array, outputs)), case.rtol, case.atol)
            made.setdefault(case.model.graph.node[0].op_type, []).append(one)
    return made


def opened(case: Case) -> tuple[ort_lite.InferenceSession, str]:
    """A session with the provider in front, without transforms, and the code with which it declines the node, or ""."""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort_lite.InferenceSession(
        case.model.SerializeToString(), options, providers=[XLAExecutionProvider, "CPUExecutionProvider"]
    )
    op_type = case.model.graph.node[0].op_type  # a Cast may be put before it
    place = next(place for _, place in session.explain().assignment.rows() if place.node.op_type == op_type)
    codes = [r.code for r in place.reasons if r.provider == XLAExecutionProvider.name]
    return session, "".join(codes)


def with_constants(case: Case) -> Case:
    """The case with the operands whose contents must be known as initialisers, as models have them."""
    node = case.model.graph.node[0]
    version = next(entry.version for entry in case.model.opset_import if entry.domain == node.domain)
    lowering = next(found for found in TABLE[node.domain, node.op_type] if found.since <= version)
    names = {node.input[k] for k in lowering.contents if k < len(node.input)} & case.inputs.keys()
    model = ModelProto()
    model.CopyFrom(case.model)
    kept = [value for value in model.graph.input if value.name not in names]
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(case.inputs[name]), name) for name in sorted(names))
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return case._replace(model=model, inputs={name: x for name, x in case.inputs.items() if name not in names})


def differences(case: Case, got: list[Any]) -> list[str]:
    found = []
    for value, a, expected in zip(case.model.graph.output, got, case.outputs, strict=True):
        b = np.asarray(expected)
        least = RESOLUTION.get(b.dtype.name, 0)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            found.append(f"{case.name}: {value.name} is {a.dtype}{list(a.shape)}; expected {b.dtype}{list(b.shape)}")
        elif b.dtype.name in ("bfloat16", "float16", "float32", "float64"):
            wide = a.astype(np.float64), b.astype(np.float64)
            if not np.allclose(*wide, max(case.rtol, least), max(case.atol, least), equal_nan=True):
                found.append(f"{case.name}: {value.name} is {a.ravel()[:8]}...; expected {b.ravel()[:8]}...")
        elif not np.array_equal(a, b):
            found.append(f"{case.name}: {value.name} is {a.ravel()[:8]}...; expected {b.ravel()[:8]}...")
    return found


@pytest.mark.parametrize("op_type", [name for name in OPERATORS if name not in WITHOUT_CASES])
def test_what_is_claimed_with_constants_is_computed(op_type: str, suite: dict[str, list[Case]]) -> None:
    claimed, wrong = 0, []
    for given in suite[op_type]:
        session, code = opened(given)
        if code == "contents":
            case = with_constants(given)
            session, code = opened(case)
            wrong += [] if code else differences(case, session.run(None, dict(case.inputs)))
        assert code in LIMITS | {""}, f"{given.name} is declined: {code}"
        claimed += not code
    assert wrong == []
    assert claimed, f"no case of {op_type} is claimed"


def test_there_are_at_least_120_operators() -> None:
    assert len(OPERATORS) >= 120


def test_operators_whose_results_are_as_large_as_the_data_says_are_declined(suite: dict[str, list[Case]]) -> None:
    for op_type in ("Compress", "NonMaxSuppression", "NonZero", "Unique"):
        assert {opened(case)[1] for case in suite[op_type]} == {"shape"}
