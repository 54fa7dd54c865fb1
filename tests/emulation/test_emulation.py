"""The script itself, with an emulator that emulates nothing: what it finds right, wrong, refused, and ended."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import pytest
from onnx import parser

from tests.emulation.__main__ import Verdict, judged
from tests.emulation.machines import MACHINES, Emulator
from tests.emulation.work import Work

TRANSPARENT = 'shift 2; exec "$@"'  # without -cpu NAME


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for several tests: each would compile the same kernels."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def folder(tmp_path: Path, kernels: Path) -> Path:
    """What an emulator is made of."""
    (tmp_path / "kernels").symlink_to(kernels)
    return tmp_path


def emulator(folder: Path, script: str = TRANSPARENT) -> Emulator:
    path = folder / "qemu" / "usr" / "bin" / "qemu-x86_64-static"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return Emulator(MACHINES["haswell"], folder)


def negation(name: str, expected: Sequence[float], model: bytes = b"") -> Work:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    made = model or parser.parse_model(text).SerializeToString()

    def check(results: Sequence[Sequence[Any]]) -> None:
        [[found]] = results
        assert found.tolist() == list(expected), "other numbers"

    return Work(name, made, [{"x": np.array([1, -2], np.float32)}], check)


@pytest.mark.slow
def test_every_model_has_a_verdict_in_their_order(folder: Path) -> None:
    work = [
        negation("right", [-1, 2]),
        negation("wrong", [1, 2]),
        negation("refused", [], b"no model"),
        negation("again", [-1, 2]),
    ]
    right, wrong, refused, again = judged(emulator(folder), work, jobs=2)
    assert (right.name, right.wrong) == ("right", "")
    assert (wrong.name, wrong.wrong.partition("\n")[0]) == ("wrong", "other numbers")
    assert "InvalidProtobuf" in refused.wrong
    assert again.wrong == ""
    assert any((folder / "kernels").iterdir()), "kernels are kept elsewhere"


@pytest.mark.slow
def test_a_process_that_ends_is_named_and_replaced(folder: Path) -> None:
    once = f'case "$*" in *guest.py*) [ -e {folder}/second ] || {{ touch {folder}/second; exit 3; }};; esac; {TRANSPARENT}'
    first, second = judged(emulator(folder, once), [negation("first", [-1, 2]), negation("second", [-1, 2])], jobs=1)
    assert first.wrong.startswith("the process ended with 3; its messages are in ")
    assert second == Verdict("second", "", second.seconds)


@pytest.mark.slow
def test_a_kernel_that_the_guest_compiles_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the two Pythons differ: here by the compilers that the compiling process finds."""
    aside = emulator(tmp_path)
    compiler = Path(aside.compiler())
    text = compiler.read_text(encoding="utf-8")
    for package in (numba, llvmlite):
        (tmp_path / "others" / f"{package.__name__}-0.0.1.dist-info").mkdir(parents=True)
        (tmp_path / "others" / package.__name__).symlink_to(Path(package.__file__).parent)
    compiler.write_text(text.replace("PYTHONPATH=", f"PYTHONPATH={shlex.quote(str(tmp_path / 'others'))}:"), encoding="utf-8")
    monkeypatch.setattr(Emulator, "compiler", lambda self: str(compiler))
    [verdict] = judged(aside, [negation("right", [-1, 2])], jobs=1)
    assert "compiled in the emulated process" in verdict.wrong
