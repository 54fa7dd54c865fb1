"""The module `ort_lite`: its names, and what importing it costs."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ort_lite


def test_every_public_name_resolves() -> None:
    assert all(getattr(ort_lite, name) is not None for name in ort_lite.__all__)
    assert set(ort_lite.__all__) <= set(dir(ort_lite))


def test_a_public_name_is_written_once() -> None:
    """In a line for type checkers, which the module reads at run time; it has no second list."""
    source = Path(str(ort_lite.__file__)).read_text(encoding="utf-8")
    names = re.findall(r"import \(?\s*(\w+) as (\w+)", source)
    assert len(names) > 100
    assert [(name, alias) for name, alias in names if name != alias] == []
    assert sorted(alias for _, alias in names) == ort_lite.__all__


def test_a_star_imports_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from ort_lite import *", names)
    assert set(ort_lite.__all__) <= names.keys()


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ort_lite' has no attribute 'InferenceSesion'"):
        ort_lite.InferenceSesion  # noqa: B018


def test_the_version_is_numbers_between_dots() -> None:
    assert all(part.isdecimal() for part in ort_lite.__version__.split("."))
    assert ort_lite.get_version_string() == ort_lite.__version__


def test_the_device_is_the_cpu() -> None:
    assert ort_lite.get_device() == "CPU"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import ort_lite", {"numpy", "logging", "dataclasses"}),
        (
            "import ort_lite; ort_lite.InferenceSession; ort_lite.SessionOptions",
            {
                "numba",
                "llvmlite",
                "onnx",
                "rich",
                "pluggy",
                "importlib.metadata",
                "logging",
                "json",
                "ort_lite.execute.profiling",
            },
        ),
    ],
    ids=["module", "session"],
)
def test_importing_loads_only_what_is_needed(code: str, absent: set[str]) -> None:
    command = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=240)
    assert set(result.stdout.split()) & absent == set()


def test_telemetry_calls_do_nothing() -> None:
    calls: list[Callable[[], object]] = [ort_lite.disable_telemetry_events, ort_lite.enable_telemetry_events]
    assert [call() for call in calls] == [None, None]
