"""The emulated machines: which there are, and processes on them that run models."""

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ort_lite.native.workers import receive, send
from tests.emulation.work import Work

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join(str(ROOT / folder) for folder in (".", "providers", "transforms"))
PATIENCE_S = 600.0
"""For one model, its kernels included; then its process is killed, and the model counts as wrong."""


class Machine(NamedTuple):
    """QEMU's names of an architecture and of a CPU."""

    architecture: str
    cpu: str


MACHINES = {
    "nehalem": Machine("x86_64", "Nehalem"),  # SSE4.2
    "haswell": Machine("x86_64", "Haswell"),  # AVX2
    "armv8.0": Machine("aarch64", "cortex-a53"),
    "dotprod": Machine("aarch64", "cortex-a76"),  # ARMv8.2 with dot products and half precision
    "i8mm": Machine("aarch64", "max"),  # all that QEMU knows: products of matrices of bytes, and SVE, among others
}


class Emulator(NamedTuple):
    """Starts Python on one machine. `folder` is what fetch.sh has filled; kernels are kept there, too. With a folder that has
    `ort_lite_kernels` in it, kernels are those of its pack alone: there is no compiler and no cache.
    """

    machine: Machine
    folder: Path
    packs: Path | None = None

    def command(self, *arguments: str) -> list[str]:
        """x86-64 runs this Python; AArch64 one of its own, with packages of its own."""
        architecture, cpu = self.machine
        qemu = str(self.folder / "qemu" / "usr" / "bin" / f"qemu-{architecture}-static")
        if architecture == "x86_64":
            return [qemu, "-cpu", cpu, sys.executable, *arguments]
        root, version = self.folder / "aarch64", f"{sys.version_info.major}.{sys.version_info.minor}"
        return [qemu, "-cpu", cpu, "-L", str(root), str(root / "usr" / "bin" / f"python{version}"), *arguments]

    def environment(self) -> Mapping[str, str]:
        """This process's, without what names its own CPU to a library."""
        others = ("PYTHON", "NUMBA_", "OPENBLAS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        kept["ORT_LITE_CACHE_DIR"] = str(self.folder / ("kernels" if self.packs is None else "none"))
        sources = SOURCES if self.packs is None else f"{SOURCES}{os.pathsep}{self.packs}"
        if self.machine.architecture == "x86_64":
            return {**kept, "PYTHONPATH": sources}
        root = self.folder / "aarch64"
        return {**kept, "PYTHONPATH": f"{sources}{os.pathsep}{root / 'site'}", "PYTHONHOME": str(root / "usr")}

    def compiler(self) -> str:
        """A command that compiles for a guest and is not emulated, written now. Object code is named after bytecode and compilers,
        not after releases of Python: where the two Pythons should differ in these, `serve` says so. "" where there is none.
        """
        if self.packs is not None:
            return ""
        path = self.folder / f"compiler-{self.machine.cpu}"
        command = shlex.join([sys.executable, "-P", "-m", "ort_lite.native.serve"])
        path.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(SOURCES)} exec {command}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)


class Guest:
    """One process on an emulated machine; a new one takes its place if it ends. Not thread-safe."""

    def __init__(self, emulator: Emulator, compiler: str) -> None:
        self.command = emulator.command(str(Path(__file__).with_name("guest.py")), compiler)
        self.environment = emulator.environment()
        self.log = open(emulator.folder / f"messages-{emulator.machine.cpu}.txt", "ab")  # noqa: SIM115  closed by close
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, work: Work) -> tuple[Any, float]:
        """(outputs of each run, or a text that says what went wrong; seconds)."""
        process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(PATIENCE_S, process.kill)
        watch.start()
        try:
            send(process.stdin, (work.model, work.runs, int(work.level), work.threads, work.rounding))
            answer: tuple[Any, float] = receive(process.stdout)
        except (OSError, EOFError):
            self._end()
            return f"the process ended with {process.returncode}; its messages are in {self.log.name}", 0.0
        finally:
            watch.cancel()
        return answer

    def _start(self) -> "subprocess.Popen[bytes]":
        self.process = subprocess.Popen(
            self.command, env=dict(self.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        return self.process

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def close(self) -> None:
        self._end()
        self.log.close()
