"""The build hook: compiles native/shim.c with a C compiler, and names the platform in the wheel's tag.

`CC` names another compiler, as for make. The compiler says for which platform it builds, so a cross compiler gives the wheel of
its target: `CC="$PWD/.venv/bin/python -I -m ziglang cc -target aarch64-linux-gnu.2.28" pip wheel .`
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
_FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-s")
_SYSTEMS = {"linux": "linux", "darwin": "macosx_11_0", "macos": "macosx_11_0", "windows": "win", "w64": "win"}
_MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class ShimBuild(BuildHookInterface[Any]):
    """Puts the compiled library into the wheel, or next to the sources of an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and set the tag: every Python 3, this platform."""
        compiler = shlex.split(os.environ.get("CC", "cc"))
        target = _target(compiler)
        self._temporary = tempfile.TemporaryDirectory()
        name = "libort_lite_ep.dll" if "win" in target else "libort_lite_ep.so"
        package = ROOT / "ort_lite_ep"
        library = (package if version == "editable" else Path(self._temporary.name)) / name
        command = [*compiler, *_FLAGS, "-o", str(library), str(ROOT / "native" / "shim.c")]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"ort-lite-ep: {shlex.join(command)} failed: {error}; install a C compiler, or name one with CC")
        if version != "editable":
            build_data["force_include"][str(library)] = f"ort_lite_ep/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform(target, compiler)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the library, which is in the wheel now."""
        self._temporary.cleanup()


def _target(compiler: list[str]) -> str:
    """Return the platform for which a compiler builds, such as x86_64-linux-gnu."""
    command = [*compiler, "-dumpmachine"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"ort-lite-ep: {shlex.join(command)} failed: {error}; install a C compiler, or name one with CC")
    if not done.stdout.strip():  # zig prints it, and fails because of the version of the C library in it
        sys.exit(f"ort-lite-ep: {shlex.join(command)} printed no platform: {done.stderr.strip()}; name a C compiler with CC")
    return done.stdout.strip()


def _platform(target: str, compiler: list[str]) -> str:
    """Return the platform of a wheel's tag.

    A compiler that is told the version of the C library, as zig is, gives a tag that says so.
    """
    machine = next((name for part, name in _MACHINES.items() if target.startswith(part)), target.partition("-")[0])
    system = next((name for part, name in _SYSTEMS.items() if part in target), "")
    if system == "linux":
        return f"manylinux_2_28_{machine}" if "gnu.2.28" in " ".join(compiler) else f"linux_{machine}"
    if system.startswith("macosx"):
        return f"{system}_{'arm64' if machine == 'aarch64' else machine}"
    if system == "win":
        return f"win_{'arm64' if machine == 'aarch64' else 'amd64'}"
    sys.exit(f"ort-lite-ep: the compiler builds for {target}; expected Linux, macOS or Windows")
