"""The ONNX node tests that the conformance kit leaves out, texts and sequences, through [OpenVINO, CPU]."""

from typing import Any

import pytest
from ort_lite_openvino import OpenVINOExecutionProvider

from tests.other_node_cases import cases, check_case


@pytest.fixture(scope="module")
def provider() -> OpenVINOExecutionProvider:
    return OpenVINOExecutionProvider(num_threads=1)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_it_claims_it_computes_and_for_the_rest_it_has_a_reason(case: Any, provider: OpenVINOExecutionProvider) -> None:
    check_case(case, provider)
