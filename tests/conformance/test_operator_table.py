"""docs/operators.md is what the provider answers, and the answers leave no gap."""

import pytest

from ort_lite.dtypes import DType, is_dtype
from ort_lite.graph import TensorType, Type
from tests.conformance.operator_table import (
    DOMAINS,
    FILE,
    NEVER,
    NO_ROW,
    Row,
    microsoft_kernels,
    parsed,
    rows,
    schemas,
    table,
)

pytestmark = pytest.mark.slow

_WEIGHED = "its body is compiled; what it gives is weighed between two calls, as 0061 says"
PYTHON_OF_NUMBERS = {
    ("", "ImageDecoder"): "decoding a file format is Pillow's business",
    ("com.microsoft", "BeamSearch"): _WEIGHED,
    ("com.microsoft", "GreedySearch"): _WEIGHED,
    ("com.microsoft", "Sampling"): _WEIGHED,
    ("com.microsoft", "WhisperBeamSearch"): _WEIGHED,
}
"""Operators that are Python although all their tensors hold numbers."""


def refused(row: Row) -> list[str]:
    return sorted({answer.refused for answer in row.answers if answer.refused})


def is_number(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.dtype != "string"


def test_the_file_is_what_the_provider_answers() -> None:
    assert FILE.read_text(encoding="utf-8") == table(), "write it anew: python -m tests.conformance.operator_table"


def test_every_schema_of_the_installed_onnx_has_a_row() -> None:
    versions = {(row.domain, row.op_type): row.versions for row in rows()}
    missing = [
        (s.domain, s.name, s.since_version) for s in schemas() if s.since_version not in versions.get((s.domain, s.name), ())
    ]
    assert [key for key in missing if key[:2] not in NO_ROW] == []
    assert {key[:2] for key in missing} == NO_ROW.keys(), "an operator runs that NO_ROW leaves out"


def test_no_domain_of_the_installed_onnx_is_left_out() -> None:
    import onnx.defs

    assert {schema.domain for schema in onnx.defs.get_all_schemas_with_history()} == set(DOMAINS)


def test_every_version_runs_on_every_type_that_its_schema_allows() -> None:
    assert {row.op_type: refused(row) for row in rows() if refused(row)} == {}


def test_every_type_of_every_schema_is_one_that_the_framework_knows() -> None:
    def element_types(schema_types: list[str]) -> list[DType]:
        return [type_.dtype for type_ in map(parsed, schema_types) if isinstance(type_, TensorType)]

    for schema in schemas():
        for constraint in schema.type_constraints:
            assert all(map(is_dtype, element_types(list(constraint.allowed_type_strs)))), schema.name


def test_numbers_alone_need_no_python() -> None:
    """Where sequences, optionals or maps are allowed beside tensors, the operator is about those."""
    python = {
        (row.domain, row.op_type)
        for row in rows()
        if all(isinstance(type_, TensorType) for answer in row.answers for type_ in answer.types)
        and any(answer.python and all(map(is_number, answer.types)) for answer in row.answers)
    }
    assert python == PYTHON_OF_NUMBERS.keys()


def test_operators_that_onnxruntime_has_kernels_of_have_a_row() -> None:
    there = {(row.domain, row.op_type) for row in rows() if row.answers}
    assert ("", "SimplifiedLayerNormalization") in there
    assert microsoft_kernels().keys() <= {op_type for domain, op_type in there if domain == "com.microsoft"}


def test_exceptions_are_about_operators_that_there_are() -> None:
    names = {(schema.domain, schema.name) for schema in schemas()} | {(row.domain, row.op_type) for row in rows()}
    assert names >= NO_ROW.keys() | NEVER.keys() | PYTHON_OF_NUMBERS.keys()
