"""The ONNX node tests that the conformance kit leaves out, texts and sequences: what a provider claims of them it computes.

The tests of plugins share this; they run from the root of the repository.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.provider import ExecutionProvider
from ort_lite.testing.cases import node_cases
from tests.operator_traits import traits_of


def cases() -> list[Any]:
    """Without those that draw numbers, which nobody can compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the overflows that some cases are about
        found: list[Any] = load_model_tests(kind="node")
    checked = {f"test_{case.name}" for case in node_cases()}
    others = [case for case in found if case.name not in checked]
    return [case for case in others if all(traits_of(node.op_type).random != () for node in case.model.graph.node)]


def array(value: Any) -> Any:
    match value:
        case TensorProto():
            return numpy_helper.to_array(value)
        case SequenceProto():
            return numpy_helper.to_list(value)
        case OptionalProto():
            return numpy_helper.to_optional(value)
    return value


def session(model: ModelProto, provider: ExecutionProvider) -> ort_lite.InferenceSession:
    """As the model is: transforms would fold and fuse what is to be tested."""
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_lite.InferenceSession(model, options, providers=[provider, "CPUExecutionProvider"])


def flat(values: Sequence[Any]) -> Iterator[Array]:
    for value in values:
        if isinstance(value, list):
            yield from flat(value)
        elif value is not None:
            yield np.asarray(value)


def check_case(case: Any, provider: ExecutionProvider) -> None:
    """Through [provider, CPU]: what is claimed gives the expected results, and for the rest there is a reason."""
    made = session(case.model, provider)
    places = list(made.explain().assignment.placements.values())
    claimed = [place for place in places if place.provider == provider.name]
    assert all(place.reasons[0].verdict == "declined" for place in places if place not in claimed)
    for inputs, outputs in case.data_sets if claimed else ():
        feeds = {value.name: array(x) for value, x in zip(case.model.graph.input, inputs, strict=False)}
        got = flat(made.run(None, feeds))
        for result, expected in zip(got, flat([array(y) for y in outputs]), strict=True):
            assert result.shape == expected.shape
            if expected.dtype.kind in "biuOSU":
                np.testing.assert_array_equal(result, expected)
            else:
                wide = np.complex128 if expected.dtype.kind == "c" else np.float64
                np.testing.assert_allclose(result.astype(wide), expected.astype(wide), rtol=case.rtol, atol=case.atol)
