"""onnx's backend test suite, the cases from H to Z, with all optimisations and with none."""

import pytest

from tests.conformance.onnx_backend import check, parametrize

pytestmark = pytest.mark.slow


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "h", "z")


def test_case(name: str, level: str) -> None:
    check(name, level)
