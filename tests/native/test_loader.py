"""Loading: warm processes, damaged and concurrent caches, threads, forks, workers that leave."""

import importlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ort_lite.errors import KernelCompileError
from ort_lite.native import Spec, load, loader, workers
from ort_lite.native.cpu import Target, host
from ort_lite.native.siblings import CAN_FORK, Sibling, pipes
from ort_lite.native.spec import key_of
from tests.native import kernels
from tests.native.calls import AARCH64, SSE2, expression_spec, plain
from tests.native.compiled import object_code
from tests.processes import child
from tests.threads import run_together

pytestmark = pytest.mark.slow  # processes that compile

ROOT = Path(__file__).parents[2]

# Loads three kernels and says what it took; argument "refuse" makes compiling an error, "count" counts what is compiled.
PROGRAM = """
import json, sys
from ort_lite.native import Spec, cache, load, workers
from tests.native import kernels
if "refuse" in sys.argv:
    def refuse(specs, target, folder):
        raise AssertionError(f"compiles {[spec.name for spec in specs.values()]}")
    workers.compile_all = refuse
written, write = [], cache.write
if "count" in sys.argv:
    cache.write = lambda folder, key, data: written.append(key) or write(folder, key, data)
specs = [Spec(kernels.add, (kind,) * 3) for kind in ("f32", "i8")] + [Spec.plain(kernels.large, "i64(i64)")]
addresses = load(specs)
import ctypes
result = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses[2])(5)
foreign = [name for name in ("numba", "llvmlite", "onnx", "ml_dtypes", "rich", "pluggy") if name in sys.modules]
counted = {"compiled": len(written)} if "count" in sys.argv else {}
print(json.dumps({"result": result, "foreign": foreign, "distinct": len(set(addresses)), **counted}))
"""


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "ORT_LITE_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *arguments]
    return subprocess.Popen(command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    output, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    assert messages == ""
    found: dict[str, Any] = json.loads(output)
    return found


def objects(folder: Path) -> list[Path]:
    """Kernels in the cache. Names with a dot are claims, or objects that are still being written."""
    return [file for file in folder.iterdir() if "." not in file.name]


EXPECTED = {"result": 26, "foreign": [], "distinct": 3}


def test_a_warm_process_compiles_nothing_and_imports_no_compiler(tmp_path: Path) -> None:
    assert finish(start(tmp_path)) == EXPECTED
    assert len(objects(tmp_path)) == 3
    assert finish(start(tmp_path, "refuse")) == EXPECTED


def test_damaged_objects_are_compiled_again(tmp_path: Path) -> None:
    finish(start(tmp_path))
    for file in objects(tmp_path):
        file.write_bytes(file.read_bytes()[:-9] + b"\xcc" * 9)
    assert finish(start(tmp_path)) == EXPECTED
    assert finish(start(tmp_path, "refuse")) == EXPECTED


def test_processes_that_start_together_compile_each_kernel_once(tmp_path: Path) -> None:
    together = [start(tmp_path, "count") for _ in range(8)]
    found = [finish(process) for process in together]
    assert sum(each.pop("compiled") for each in found) == 3
    assert found == [EXPECTED] * 8
    assert len(objects(tmp_path)) == 3


def test_a_cache_that_cannot_be_written_costs_time_and_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    process = start(tmp_path / "file")
    output, messages = process.communicate(timeout=120)
    assert json.loads(output) == EXPECTED
    assert len(messages.splitlines()) == 1
    assert re.fullmatch(r".*/file: .*; compiled kernels are not kept there.*ORT_LITE_CACHE_DIR\n", messages)


SLOW = """
from ort_lite.native import Spec, load, progress
from tests.native import kernels
def tell(seen):
    print(seen.done, flush=True)
with progress.listen(tell):
    load([Spec(kernels.add, (kind,) * 3) for kind in ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")])
"""


@contextmanager
def compiling(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has compiled the first of ten kernels, in a process group of its own."""
    command = [sys.executable, "-c", SLOW]
    with child(command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and int(line) < 1:
            pass
        yield process


def gone(group: int) -> bool:
    """Whether no process of a group is left; those that were killed go when the system comes to it."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_ctrl_c_ends_compiling_and_keeps_what_is_compiled(tmp_path: Path) -> None:
    """As a terminal does it: every process of the group hears it."""
    with compiling(tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)
        _, messages = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT
        assert messages.splitlines()[-1] == "KeyboardInterrupt"
        assert messages.count("Traceback") == 1  # nothing from workers
        assert 1 <= len(objects(tmp_path)) < 10
        assert gone(process.pid)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_workers_leave_in_silence_when_their_process_is_killed(tmp_path: Path) -> None:
    with compiling(tmp_path) as process:
        process.kill()
        _, messages = process.communicate(timeout=60)  # until nobody holds the other end
        assert messages == ""


AHEAD = """
import sys, time
from pathlib import Path
from ort_lite.native import Spec
from ort_lite.native.loader import ahead
from tests.native import kernels
folder, wait = Path(sys.argv[1]), sys.argv[2] == "wait"
ahead([Spec(kernels.add, (kind,) * 3) for kind in ("f32", "i8")])
while wait and sum("." not in file.name for file in folder.glob("*")) < 2:
    time.sleep(0.05)
print("ort_lite.native.workers" in sys.modules)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_what_is_compiled_ahead_is_in_the_cache_and_holds_nobody_up(tmp_path: Path) -> None:
    """First the process ends at once, and its worker with it; then it waits for the objects; then they are there."""
    for wait, compiles, least in (("leave", True, 0), ("wait", True, 2), ("leave", False, 2)):
        command = [sys.executable, "-W", "error", "-c", AHEAD, str(tmp_path), wait]
        process = subprocess.Popen(
            command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert output.strip() == str(compiles)
        assert len(objects(tmp_path)) >= least
        assert gone(process.pid)


def test_equal_specs_have_one_address() -> None:
    first, second, other = load([Spec(kernels.add, (kind,) * 3) for kind in ("f32", "f32", "f64")])
    assert first == second != other
    assert load([Spec(kernels.add, ["f32"] * 3)]) == [first]


def test_code_for_another_machine_is_refused() -> None:
    spec = Spec(kernels.add, ("f32",) * 3)
    stranger = Target(host().triple, "stranger", "+a-feature-that-no-machine-has")
    with pytest.raises(ValueError, match=r"code for stranger .* does not run on"):
        load([spec], stranger)
    with pytest.raises(ValueError, match="does not run on"):
        load([spec], AARCH64 if host().triple.startswith("x86") else SSE2)


def test_threads_may_load_at_once() -> None:
    specs = [Spec(kernels.add, (kind,) * 3) for kind in ("u8", "u16", "u32", "u64")]
    found: list[list[int]] = []
    run_together(lambda _: found.append(load(specs)), 8)
    assert len(found) == 8
    assert all(addresses == found[0] for addresses in found)


def test_a_failing_compile_is_reported_and_poisons_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    good, bad = expression_spec("x + y + 1", "f32", "f32"), expression_spec("x * unknown", "f32", "f32")
    with pytest.raises(KernelCompileError, match=r"(?s)apply<f32, f32, f32, f32>.*unknown.*x \* unknown"):
        load([good, bad])
    (address,) = load([good])
    assert address


def test_functions_without_a_name_of_their_own_are_compiled_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    offset = 40

    def local(x: int) -> int:
        return x + offset

    assert plain(Spec.plain(local, "i64(i64)"), 2) == 42


def test_a_worker_that_has_gone_is_replaced(tmp_path: Path) -> None:
    worker = workers.Worker()
    spec = Spec(kernels.add, ("i16",) * 3)
    key = key_of(spec, host())
    try:
        first = workers.compile_there(worker, key, spec, host(), str(tmp_path))
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        assert workers.compile_there(worker, key, spec, host(), str(tmp_path)) == first
    finally:
        worker.close()


def test_code_that_changed_since_it_was_imported_is_not_taken_from_a_worker(tmp_path: Path) -> None:
    """The worker imports the file as it is now; this process holds what it was."""
    source = "from ort_lite.native.lang import *\n@native\ndef value(x: int) -> int:\n    return {}\n"
    (tmp_path / "changing.py").write_text(source.format(1))
    sys.path.insert(0, str(tmp_path))
    worker = workers.Worker()
    try:
        changing = importlib.import_module("changing")
        (tmp_path / "changing.py").write_text(source.format("2 + x"))
        spec = Spec.plain(changing.value, "i64(i64)")
        kind, _ = worker.ask((key_of(spec, host()), pickle.dumps(spec), host()))
        assert kind == "elsewhere"
        assert plain(spec, 0) == 1
    finally:
        worker.close()
        sys.path.remove(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_calls_what_was_loaded_and_compiles_more(tmp_path: Path) -> None:
    code = """
import os, sys
from ort_lite.native import Spec, load
from tests.native import kernels
from tests.native.calls import plain
assert plain(Spec.plain(kernels.large, "i64(i64)"), 5) == 26
child = os.fork()
if child == 0:
    assert plain(Spec.plain(kernels.large, "i64(i64)"), 5) == 26
    assert plain(Spec.plain(kernels.twelve_times, "i64(i64)"), 5) == 60
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert plain(Spec.plain(kernels.calls_large, "i64(i64)"), 2) == 15
"""
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment(tmp_path), check=True, timeout=120)


def test_what_was_left_is_compiled_behind_others_or_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loader, "_left", {})
    ahead: list[str] = []
    monkeypatch.setattr(workers, "compile_ahead", lambda specs, target, folder: ahead.extend(specs))
    left, wanted = expression_spec("x + y + 3", "f32", "f32"), expression_spec("x + y + 4", "f32", "f32")
    loader.leave(left, host())
    assert not loader.is_available(left, host())
    load([wanted])
    assert ahead == [key_of(left, host())]
    loader.finish()
    assert loader.is_available(left, host())
    load([expression_spec("x + y + 5", "f32", "f32")])
    assert ahead == [key_of(left, host())]  # it is there


@pytest.mark.skipif(not CAN_FORK, reason="forks have handles where there is pidfd_open, on Linux alone")
def test_workers_that_start_together_are_forks_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is killed is replaced; one that was never asked leaves like the others."""
    family = [workers.Worker() for _ in range(3)]
    monkeypatch.setattr(workers, "_workers", family)
    specs = [Spec(kernels.add, (kind,) * 3) for kind in ("u8", "u16", "u32")]
    workers._start_together(3)
    unused = family[2].spare
    try:
        made = [
            workers.compile_there(worker, key_of(spec, host()), spec, host(), str(tmp_path))
            for worker, spec in zip(family[:2], specs, strict=False)
        ]
        assert made == [object_code(spec, host()) for spec in specs[:2]]
        forked = family[1].process
        assert isinstance(family[0].process, subprocess.Popen)
        assert isinstance(forked, Sibling)
        forked.kill()
        assert forked.wait() == 0
        third = workers.compile_there(family[1], key_of(specs[2], host()), specs[2], host(), str(tmp_path))
        assert third == object_code(specs[2], host())
        assert isinstance(family[1].process, subprocess.Popen)
    finally:
        for worker in family:
            worker.close()
    assert unused is not None
    assert unused.stdin.closed and family[2].spare is None


@pytest.mark.skipif(not CAN_FORK, reason="forks have handles where there is pidfd_open, on Linux alone")
def test_a_fork_that_is_not_there_is_done_without(tmp_path: Path) -> None:
    worker = workers.Worker()
    [worker.spare], [ends] = pipes(1)
    for end in ends:  # whoever was to fork it has gone
        os.close(end)
    spec = Spec(kernels.add, ("u8",) * 3)
    try:
        made = workers.compile_there(worker, key_of(spec, host()), spec, host(), str(tmp_path))
        assert made == object_code(spec, host())
    finally:
        worker.close()


@pytest.mark.skipif(not CAN_FORK, reason="forks have handles where there is pidfd_open, on Linux alone")
def test_an_end_of_one_of_those_that_started_together_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has its descriptors: reading its answers would wait for ever."""
    family = [workers.Worker() for _ in range(3)]
    monkeypatch.setattr(workers, "_workers", family)
    workers._start_together(3)
    try:
        assert all(worker.spare is not None and worker.spare.greet() for worker in family[1:])
        for process in (family[0].process, family[1].spare, family[2].spare):
            assert process is not None and process.stdout is not None
            process.kill()
            assert process.stdout.read() == b""
    finally:
        for worker in family:
            worker.close()
