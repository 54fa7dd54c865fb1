"""Every node case of ONNX's backend test suite: inferred shapes, evaluated, are those of the expected outputs."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.numpy_helper
import pytest
from onnx.backend.test.case import node as node_cases

from ort_lite.dtypes import from_numpy
from ort_lite.graph import OptionalType, SequenceType, TensorType, Value
from ort_lite.inference import Inference, Info, constant_info
from ort_lite.load.load import load
from ort_lite.shapes import substitute
from tests.transforms.shapes.checking import ALL, symbolic

pytestmark = pytest.mark.slow  # collecting the cases takes ten seconds

Case = tuple[str, Any, list[Any], list[Any]]

# Operators whose results are as many as the data says.
DATA_DEPENDENT = {"NonMaxSuppression", "Unique", "StringSplit", "StringNormalizer", "ImageDecoder", "Loop", "Scan", "GatherND"}


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    def array(data: Any) -> Any:
        return onnx.numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else data

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes infinities on purpose
        found = node_cases.collect_testcases(None)
    return [
        (case.name, case.model, list(map(array, inputs)), list(map(array, outputs)))
        for case in found
        for inputs, outputs in case.data_sets or ()
    ]


def info_of(value: Value, data: Any, mode: str) -> tuple[Info, dict[str, int]]:
    """What inference is told of an input, and the symbols in it."""
    if isinstance(data, np.ndarray | np.generic) and isinstance(value.type, TensorType):
        if mode == "numbers":
            return constant_info(np.asarray(data)), {}
        return symbolic(value.name, np.asarray(data), mode == "symbols")
    return Info(value.type), {}


def differences(case: Case, mode: str) -> Iterator[str]:
    """What is wrong with the outputs' Infos, and "open" for each dim that stays open."""
    name, proto, inputs, outputs = case
    graph = load(proto).graph
    for node in graph.all_nodes():
        for value in node.outputs:
            if value is not None:
                value.type = None  # inference is to find it
    infos: list[Info] = []
    values: dict[str, int] = {}
    for value, data in zip(graph.inputs, [*inputs, *[None] * (len(graph.inputs) - len(inputs))], strict=True):
        info, added = info_of(value, data, mode)
        infos.append(info)
        values |= added
    for info, data in zip(Inference(ALL).run(graph, infos), outputs, strict=False):
        yield from compared(f"{name} ({mode})", info, data, values)


def compared(who: str, info: Info, data: Any, values: dict[str, int]) -> Iterator[str]:
    type_ = info.type.element if isinstance(info.type, OptionalType) else info.type
    if data is None:
        return
    if isinstance(data, list):
        if not isinstance(type_, SequenceType):
            yield f"{who}: {type_}, a list came"
        return
    array = np.asarray(data)
    if not isinstance(type_, TensorType) or type_.dtype != from_numpy(array.dtype):
        yield f"{who}: {type_}, {array.dtype} came"
    elif type_.shape is None:
        yield "open"
    else:
        dims = [substitute(dim, values) for dim in type_.shape]
        if len(dims) != array.ndim or any(isinstance(d, int) and d != r for d, r in zip(dims, array.shape, strict=True)):
            yield f"{who}: {type_} is {dims}, {array.shape} came"
        yield from ("open" for dim in dims if not isinstance(dim, int))
        contents = [substitute(element, values) for element in info.contents or ()]
        if info.contents is not None and contents != [int(element) for element in array.reshape(-1)]:
            yield f"{who}: contents {list(info.contents)} are {contents}, {array.tolist()} came"


@pytest.mark.parametrize("mode", ["numbers", "dims", "symbols"])
def test_no_node_case_has_another_shape_than_inferred(cases: list[Case], mode: str) -> None:
    wrong = [line for case in cases for line in differences(case, mode) if line != "open"]
    assert not wrong, "\n".join(wrong)


def test_numbers_in_numbers_out_unless_the_result_depends_on_data(cases: list[Case]) -> None:
    single = [case for case in cases if len(case[1].graph.node) == 1]
    left = {case[1].graph.node[0].op_type for case in single if "open" in differences(case, "numbers")}
    assert left <= DATA_DEPENDENT


def test_symbols_in_symbols_out_unless_the_result_depends_on_data(cases: list[Case]) -> None:
    single = [case for case in cases if len(case[1].graph.node) == 1]
    left = {case[1].graph.node[0].op_type for case in single if "open" in differences(case, "dims")}
    assert left <= DATA_DEPENDENT
