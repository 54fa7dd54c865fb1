"""The wheel: its tag and contents, what its library needs and exports, and a session from an installed copy."""

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import ort_lite_ep
import pytest

PLUGIN = Path(__file__).parents[1]
ROOT = PLUGIN.parents[1]
SESSION = """
import sys
import numpy as np
import ort_lite_ep
from tests.inside_onnxruntime import OWN, model, register, session, taken
assert ort_lite_ep.__file__.startswith(sys.argv[1]) and ort_lite_ep.get_library_path().startswith(sys.argv[1])
made = session(model("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }"), register(OWN))
assert made.run(None, {"x": np.array([-1, 2], np.float32)})[0].tolist() == [-1, -2]
assert taken(OWN) == ["Abs", "Neg"]
"""


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from the sources, next to which the library stays as it is: a wheel may be for another platform."""
    folder, own = tmp_path_factory.mktemp("wheel"), Path(ort_lite_ep.get_library_path())
    before = own.stat().st_mtime_ns
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet", "--no-deps"]
    run(*pip, "--wheel-dir", str(folder), str(PLUGIN))
    assert own.stat().st_mtime_ns == before
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    with zipfile.ZipFile(wheel) as file:
        return file.extract("ort_lite_ep/libort_lite_ep.so", tmp_path_factory.mktemp("library"))


def test_it_is_for_every_python_and_one_platform(wheel: Path) -> None:
    assert re.fullmatch(rf"ort_lite_ep-[0-9.]+-py3-none-linux_{platform.machine()}\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if not name.startswith("ort_lite_ep-")}
        (text,) = (file.read(name).decode() for name in file.namelist() if name.endswith(".dist-info/WHEEL"))
    sources = {f"ort_lite_ep/{path.name}" for path in (PLUGIN / "ort_lite_ep").iterdir() if path.suffix in (".py", ".typed")}
    assert names == sources | {"ort_lite_ep/libort_lite_ep.so"}
    assert "Root-Is-Purelib: false" in text


def test_the_library_needs_the_c_library_alone(library: str) -> None:
    assert re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library)) == ["libc.so.6"]
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "--version-info", library))
    assert max((int(major), int(minor)) for major, minor in versions) <= (2, 28)


def test_the_library_exports_what_onnxruntime_and_python_call(library: str) -> None:
    from ort_lite_ep.shim import Shim

    exported = set(re.findall(r"(?:FUNC|OBJECT).* GLOBAL DEFAULT +\d+ (\w+)", run("readelf", "-W", "--dyn-syms", library)))
    other = {name for name in exported if not name.startswith("ort_lite_ep_")}
    assert other == {"CreateEpFactories", "ReleaseEpFactory"}
    source = Path(sys.modules[Shim.__module__].__file__ or "").read_text(encoding="utf-8")
    assert exported - other == {f"ort_lite_ep_{name}" for name in re.findall(r'_function\("(\w+)"', source)}


def test_an_installed_copy_runs_a_session(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps"]
    run(*pip, "--target", str(tmp_path), str(wheel))
    run(sys.executable, "-c", SESSION, str(tmp_path), PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))


def test_without_a_compiler_the_build_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(PLUGIN)]
    environment = {**os.environ, "CC": "no-such-compiler"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode
    assert "ort-lite-ep: no-such-compiler -dumpmachine failed" in done.stdout + done.stderr
    assert "install a C compiler, or name one with CC" in done.stdout + done.stderr
