"""The tests with other releases of onnxruntime, which the Makefile installs into folders of the environment."""

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

VERSIONS = ("1.24.4", "1.27.0", "1.31.1")
ROOT = Path(__file__).parents[3]
GROUPS = (("sessions", "errors", "graphs", "devices", "hooks"), ("models", "node_cases"), ("processes",))


def environment(version: str) -> dict[str, str]:
    folder = Path(sys.prefix) / f"onnxruntime-{version}"
    assert folder.is_dir(), f"{folder} is missing: make test-plugin-ep installs it"
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def test_the_newest_one_is_in_the_environment() -> None:
    assert onnxruntime.__version__.startswith("1.32.")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_inside(names: tuple[str, ...], version: str) -> None:
    found = [sys.executable, "-c", "import onnxruntime; print(onnxruntime.__version__)"]
    done = subprocess.run(found, env=environment(version), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == version
    files = [f"plugins/ort-lite-ep/tests/test_{name}_inside.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.no_skips", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env=environment(version), cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
