"""The versions that are compared: each has its sources, a wheel, an environment that the wheel is installed in, and a kernel cache."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

from ort_lite.record import Record

ROOT = Path(__file__).parents[3]
LIMIT = 1800
"""Seconds that one step of the preparation may take."""


class Side(Record):
    """A version that is ready to be measured."""

    name: str
    source: Path
    wheel: Path
    python: Path
    kernels: Path

    def environment(self, kernels: Path | None = None) -> dict[str, str]:
        """Return the variables of its processes: its own kernel cache, or another one, and byte code that is kept."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
        return {**kept, "ORT_LITE_CACHE_DIR": str(kernels or self.kernels)}


def prepare_commit(commit: str, folder: Path) -> Side:
    """Check the commit out into a folder of its own, and install it there, unless that was done before.

    Raises SystemExit with git's words for a commit that it does not know.
    """
    sha = _run(["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]).strip()
    place = folder / sha[:12]
    source = place / "source"
    if not source.exists():
        archive = subprocess.run(["git", "archive", sha], cwd=ROOT, check=True, capture_output=True, timeout=LIMIT).stdout
        partial = place / "partial"
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(partial, filter="data")
        partial.rename(source)
    return _prepare(f"{commit} ({sha[:12]})" if not sha.startswith(commit) else sha[:12], source, place, changed=False)


def prepare_working_tree(folder: Path) -> Side:
    """Install the working tree as it is now, with what is not committed."""
    head = _run(["git", "rev-parse", "HEAD"]).strip()[:12]
    dirty = bool(_run(["git", "status", "--porcelain"]).strip())
    return _prepare(f"working tree at {head}" + " with changes" * dirty, ROOT, folder / "working-tree", changed=True)


def _prepare(name: str, source: Path, place: Path, changed: bool) -> Side:
    """Build the wheel and the environment. `changed`: the sources may differ from the last time."""
    python, stamp = place / "environment" / "bin" / "python", place / "installed"
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = json.dumps([sys.version, project["dependencies"]])
    current = stamp.exists() and stamp.read_text(encoding="utf-8") == wanted
    if not current:
        stamp.unlink(missing_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(place / "environment")])
        _pip(python, "install", *project["dependencies"])
    if changed or not current:
        for old in (place / "wheel").glob("*.whl"):
            old.unlink()
        _pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", str(place / "wheel"), str(source))
        (wheel,) = (place / "wheel").glob("*.whl")
        _pip(python, "install", "--no-deps", "--force-reinstall", str(wheel))
        stamp.write_text(wanted, encoding="utf-8")
    (wheel,) = (place / "wheel").glob("*.whl")
    return Side(name, source, wheel, python, place / "kernels")


def digest(side: Side) -> str:
    """Return a digest of what is installed: kernels of a version that was warmed before need no warming."""
    return hashlib.sha256(side.wheel.read_bytes()).hexdigest()


def _pip(python: Path, *arguments: str) -> None:
    _run([str(python), "-m", "pip", arguments[0], "--disable-pip-version-check", "--quiet", *arguments[1:]])


def _run(command: list[str]) -> str:
    """Return what the command prints; where it fails, end with what it said."""
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout
