"""Who compiles, among processes: the first; those that end, and those that show no sign of life, are in nobody's way."""

import errno
import fcntl
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ort_lite.native import compile_claims
from ort_lite.native.compile_claims import CompileClaims
from tests.processes import child

MINE, ITS = "a" * 40, "b" * 40
HOLDER = f"""
import sys
from ort_lite.native.compile_claims import CompileClaims
held = CompileClaims(sys.argv[1])
assert held.take("{ITS}") and held.take_place(2) == 0
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process, which has claimed a kernel and a place, and says nothing any more."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[CompileClaims]:
    made = CompileClaims(str(tmp_path))
    yield made
    made.close()


def test_a_kernel_and_a_place_are_one_process_s_until_it_ends(holder: "subprocess.Popen[str]", ours: CompileClaims) -> None:
    assert ours.take(MINE)
    assert not ours.take(ITS)
    assert ours.take_place(1) is None
    assert ours.take_place(2) == 1
    assert ours.take_place(2) is None
    holder.kill()
    holder.wait(60)
    assert ours.take(ITS)
    assert ours.take_place(2) == 0
    ours.give_place(0)
    assert ours.take_place(2) == 0


def test_nobody_waits_for_a_process_without_a_sign_of_life(
    holder: "subprocess.Popen[str]", ours: CompileClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_claims, "PATIENCE", 0.2)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        ours.wait(compiling=True)  # a sign, for all who wait
        assert not ours.take(ITS)
    while time.monotonic() < end + 30 and not ours.take(ITS):
        ours.wait(compiling=False)
    assert ours.take(ITS)
    assert ours.take_place(1) == 0


@pytest.mark.parametrize(("age", "looks"), [(3600.0, 3), (4.25, 12), (-5.0, 21)])
def test_who_has_been_silent_for_long_is_not_waited_for_long(
    age: float, looks: int, holder: "subprocess.Popen[str]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second passes between two looks, and ten are enough; a clock that was put back is no sign of life."""
    monkeypatch.setattr(compile_claims, "monotonic", itertools.count(0.0, 0.5).__next__)
    monkeypatch.setattr(compile_claims, "time", lambda: 1e9)
    os.utime(tmp_path / compile_claims.FILE, (1e9 - age,) * 2)
    ours = CompileClaims(str(tmp_path))
    found = 0
    while not ours.take(ITS):
        ours.wait(compiling=False)
        found += 1
    assert found == looks


def test_where_there_are_no_locks_everybody_compiles(
    holder: "subprocess.Popen[str]", ours: CompileClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    assert ours.take(ITS)
    assert ours.take_place(1) == 0
    ours.wait(compiling=True)
    ours.give(ITS)


def test_where_nothing_can_be_written_everybody_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ours = CompileClaims(str(tmp_path / "file"))
    assert ours.take(ITS)
    assert ours.take_place(1) == 0
