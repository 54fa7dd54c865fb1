"""The wheel: its tag and contents, what its library needs and exports, and a session from an installed copy."""

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[1]
ROOT = PLUGIN.parents[1]
EXPORTS = {"CreateEpFactories", "ReleaseEpFactory"}
SESSION = """
import sys
import numpy as np, onnxruntime, ort_lite_ep
assert ort_lite_ep.__file__.startswith(sys.argv[1]) and ort_lite_ep.get_library_path().startswith(sys.argv[1])
from tests.inside_onnxruntime import OWN, model, register, session, taken
made = session(model("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }"), register(OWN))
assert made.run(None, {"x": np.array([-1, 2], np.float32)})[0].tolist() == [-1, -2]
assert taken(OWN) == ["Abs", "Neg"]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy: the library of the sources is in use."""
    folder = tmp_path_factory.mktemp("wheel")
    return build(folder, {})


def build(folder: Path, environment: dict[str, str]) -> Path:
    copied = folder / "sources"
    names = ("ort_lite_ep", "native", "README.md", "hatch_build.py", "pyproject.toml")
    ignored = shutil.ignore_patterns("*.so", "*.dll", "__pycache__")
    for name in names:
        source = PLUGIN / name
        if source.is_dir():
            shutil.copytree(source, copied / name, ignore=ignored)
        else:
            shutil.copy(source, copied / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(folder), str(copied)]
    subprocess.run(command, env={**os.environ, **environment}, timeout=200, check=True)
    (made,) = folder.glob("*.whl")
    return made
