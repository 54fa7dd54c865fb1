"""The Pythons that continuous integration and `make` choose, and those that the package declares."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECLARED = ("3.11", "3.12", "3.13", "3.14")


def pythons(folder: Path, versions: dict[str, str]) -> str:
    """Return a PATH with programs that answer a question for their minor version: none is an error, as of a shim."""
    for name, minor in versions.items():
        (folder / name).write_text(f"#!/bin/sh\n{f'echo {minor}' if minor else 'exit 127'}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({"python3": "11", "python3.11": "11", "python3.12": "12", "python3.13": "13", "python3.14": ""}, "python3.13"),
        ({"python3": "14", "python3.14": "14", "python3.13": "", "python3.12": "", "python3.11": "11"}, "python3.11"),
        ({"python3": "11", "python3.11": "11", "python3.14": "", "python3.13": "11", "python3.12": ""}, ""),
    ],
)
def test_continuous_integration_takes_the_newest_other_python_that_runs(
    versions: dict[str, str], expected: str, tmp_path: Path
) -> None:
    path = pythons(tmp_path, versions)
    done = subprocess.run(
        [ROOT / ".ci" / "other-python"], env={"PATH": path}, capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    ("given", "folder"), [("python3", ".venv"), ("python3.12", ".venv-3.12"), ("/opt/bin/python3.14", ".venv-3.14")]
)
def test_another_python_gets_an_environment_of_its_own(given: str, folder: str) -> None:
    command = ["make", "--dry-run", "--always-make", "test-quick", f"PYTHON={given}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    assert f"{given} -m venv {folder}\n" in done.stdout
    assert f"{folder}/bin/python -m pytest" in done.stdout


def test_the_package_declares_the_pythons_of_the_page() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    classifiers = tomllib.loads(text)["project"]["classifiers"]
    prefix = "Programming Language :: Python :: 3."
    assert tuple(each.rpartition(" ")[2] for each in classifiers if each.startswith(prefix)) == DECLARED
    page = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    assert [version for version in DECLARED if f"| {version} |" not in page] == []
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in DECLARED
