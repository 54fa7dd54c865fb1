"""Sessions and options between processes and threads: pickles, copies, spawned and forked processes."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import DeadlineExceeded, InvalidArgument, RuntimeException
from ort_lite.memory import locks
from tests.provider.numpy_provider import NumpyProvider
from tests.threads import join

ROOT = Path(__file__).parents[2]
X = np.arange(3, dtype=np.float32)
TEXT = """<ir_version: 8, opset_import: ["": 17]>
main (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { z = Add(x, w)  y = Neg(z) }"""
Y = -(X + np.array([1, 2, 3], np.float32))


def data() -> bytes:
    return bytes(onnx.parser.parse_model(TEXT).SerializeToString())


def travelled(made: Any) -> Any:
    return pickle.loads(pickle.dumps(made))


# Pickles


def test_a_session_of_a_path_is_made_from_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(data())
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads, options.logid = 1, "mine"
    options.add_session_config_entry("ort_lite.keep_constants", "1")
    made = ort_lite.InferenceSession("model.onnx", options, [("CPUExecutionProvider", {"winograd": False})])
    pickled = pickle.dumps(made)
    assert len(pickled) < 2000, "the model is not in it"
    monkeypatch.chdir("/")
    there = pickle.loads(pickled)
    np.testing.assert_array_equal(there.run(None, {"x": X})[0], Y)
    assert there.get_provider_options() == made.get_provider_options()
    theirs = there.get_session_options()
    assert (theirs.logid, theirs.config_entries) == ("mine", options.config_entries)


@pytest.mark.parametrize("source", [data, lambda: onnx.parser.parse_model(TEXT), lambda: ort_lite.load(data())])
def test_a_session_of_a_small_model_has_it_along(source: Callable[[], Any]) -> None:
    made = ort_lite.InferenceSession(source(), providers=["CPUExecutionProvider"])
    for there in (travelled(made), copy.deepcopy(made)):
        assert there is not made
        np.testing.assert_array_equal(there.run(None, {"x": X})[0], Y)


class Own(ort_lite.InferenceSession):
    pass


def test_providers_are_made_anew_and_classes_stay() -> None:
    provider = NumpyProvider(operators=("Neg",))
    made = Own(data(), providers=[provider, "CPUExecutionProvider"])
    there = travelled(made)
    assert type(there) is Own
    assert there.get_providers() == made.get_providers()
    assert provider not in there._state.selection.providers
    np.testing.assert_array_equal(there.run(None, {"x": X})[0], Y)


def test_what_cannot_be_made_again_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ort_lite.InferenceSession(bytearray(data()), providers=["CPUExecutionProvider"])
    with pytest.raises(InvalidArgument, match="large buffer or file object that it has not kept; make it from a path"):
        pickle.dumps(made)
    made = ort_lite.InferenceSession(data(), providers=["CPUExecutionProvider"])
    made.load_params({"w": np.zeros(3, np.float32)})
    with pytest.raises(InvalidArgument, match="has parameters that are not the model's"):
        pickle.dumps(made)
    made.close()
    with pytest.raises(RuntimeException, match="closed"):
        pickle.dumps(made)


def test_options_are_whole_and_belong_to_nobody() -> None:
    options, run = ort_lite.SessionOptions(), ort_lite.RunOptions()
    options.add_free_dimension_override_by_name("N", 3)
    options.add_initializer("w", X)
    options.set_load_cancellation_flag(True)
    run.timeout, run.logid = 2.5, "mine"
    run.add_run_config_entry("disable_synchronize_execution_providers", "1")
    there, there_run = travelled(options), travelled(run)
    assert there.free_dimensions == ({"N": 3}, {})
    np.testing.assert_array_equal(there.initializers["w"], X)
    assert options.load_cancellation.raised and not there.load_cancellation.raised
    with run.on_terminate(lambda: pytest.fail("a run of the other options")):
        there_run = travelled(run)
        there_run.terminate = True
    assert (there_run.timeout, there_run.logid, there_run.config_entries) == (2.5, "mine", run.config_entries)
    assert not run.terminate


def test_a_spawned_process_gets_a_session() -> None:
    made = ort_lite.InferenceSession(data(), providers=["CPUExecutionProvider"])
    code = (
        "import pickle, sys; made, x = pickle.load(sys.stdin.buffer); pickle.dump(made.run(None, {'x': x}), sys.stdout.buffer)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    given = pickle.dumps((made, X))
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, check=True, env=environment, timeout=240
    )
    np.testing.assert_array_equal(pickle.loads(done.stdout)[0], Y)


# Forks


def in_a_child(act: Callable[[], None]) -> None:
    """Fails where the child does, or does not end."""
    warnings.simplefilter("ignore", DeprecationWarning)  # threads at a fork are what this is about
    child = os.fork()
    if not child:
        try:
            act()
        except BaseException:  # noqa: BLE001  shown here, and the parent is told by the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ends = time.monotonic() + 20
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > ends:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child of a fork hangs")
        time.sleep(0.001)
    assert found[1] == 0, f"the child ended with {found[1]}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_finds_every_lock_free() -> None:
    lock, rlock = locks.lock(), locks.rlock()
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock, rlock:
            taken.set()
            over.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(20)

    def act() -> None:
        assert lock.acquire(timeout=5)
        assert rlock.acquire(timeout=5)

    in_a_child(act)
    assert not lock.acquire(blocking=False), "here it is still held"
    over.set()
    join(holder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_runs_and_makes_sessions_while_its_parent_does() -> None:
    """Threads of the parent are in runs, shared by two threads of the team, with deadlines; others make sessions."""
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 2
    square = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> m (float[N,N] x) => (float[N,N] y) { y = MatMul(x, x) }'
    )
    made, x = ort_lite.InferenceSession(square, options, ["CPUExecutionProvider"]), np.ones((256, 256), np.float32)
    over, failed = threading.Event(), list[BaseException]()

    def work(act: Callable[[], Any]) -> None:
        try:
            while not over.is_set():
                act()
        except BaseException as error:  # noqa: BLE001  raised below
            failed.append(error)

    def run() -> None:
        made.run(None, {"x": x}, timeout=30)

    def make() -> None:
        ort_lite.InferenceSession(data(), providers=["CPUExecutionProvider"]).run(None, {"x": X})

    run()
    make()  # what a first run imports is imported: Python's import locks do not survive a fork
    threads = [threading.Thread(target=work, args=(act,)) for act in (run, run, make)]
    for thread in threads:
        thread.start()

    def act() -> None:
        assert made.run(None, {"x": x}, timeout=15)[0][0, 0] == 256
        make()
        try:
            made.run(None, {"x": np.ones((1200, 1200), np.float32)}, timeout=0.001)
        except DeadlineExceeded:
            return
        raise AssertionError("no deadline in the child")

    for _ in range(5):
        in_a_child(act)
    over.set()
    for thread in threads:
        join(thread)
    assert not failed
