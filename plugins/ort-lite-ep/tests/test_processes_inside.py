"""Processes that end while sessions live, that fork, and that create a thousand sessions."""

import subprocess
import sys
import textwrap

import pytest

ROOT_SCRIPT = """
import ctypes, gc, os, resource, sys, threading, time
import numpy as np
import onnxruntime
from tests.inside_onnxruntime import OWN, model, register, session
register(OWN)
onnxruntime.set_default_logger_severity(4)
SOURCE = model("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }")
X = np.array([-1, 2], np.float32)
def run(made):
    assert made.run(None, {"x": X})[0].tolist() == [-1, -2]
"""


def output(script: str, seconds: int = 60) -> str:
    """Return what a script prints after its head. It must end by itself, with status 0 and no message."""
    source = ROOT_SCRIPT + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=seconds, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    return done.stdout


ENDINGS = {
    "a global variable": "made = session(SOURCE, OWN)\nrun(made)",
    "a cycle": """
        class Holder: pass
        holder = Holder()
        holder.me, holder.made = holder, session(SOURCE, OWN)
        run(holder.made)
        del holder
    """,
    "a leak": """
        made = session(SOURCE, OWN)
        run(made)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made._sess))
    """,
    "a module that goes late": """
        made = session(SOURCE, OWN)
        run(made)
        sys.modules["late"] = made
    """,
    "an object that runs it when it goes": """
        class Last:
            def __init__(self): self.made = session(SOURCE, OWN)
            def __del__(self):
                try: run(self.made)
                except Exception: pass
        last = Last()
        run(last.made)
        last.me = last
    """,
    "an exit by sys.exit": "made = session(SOURCE, OWN)\nrun(made)\nsys.exit(0)",
}


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_process_ends_with_a_live_session(kind: str) -> None:
    output(ENDINGS[kind])


def test_a_process_ends_while_a_daemon_thread_runs_its_session() -> None:
    for _ in range(3):
        output("""
            made = session(SOURCE, OWN)
            started = threading.Event()
            def forever():
                while True:
                    run(made)
                    started.set()
            for _ in range(2):
                threading.Thread(target=forever, daemon=True).start()
            assert started.wait(30)
            time.sleep(0.05)
        """)


FORK = """
    made = session(SOURCE, OWN)
    run(made)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            {body}
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + 10
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        assert time.monotonic() < end, "the child does not end"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 0
    run(made)
"""
RUNS_THE_PARENTS = """
            try:
                run(made)
            except Exception as error:
                assert "created before this process was forked" in str(error), str(error)
            else:
                raise AssertionError("the parent's session ran")
"""


def test_a_child_process_creates_its_own_session() -> None:
    output(FORK.format(body="run(session(SOURCE, OWN))"))


def test_a_child_process_that_runs_the_parents_session_gets_an_error() -> None:
    output(FORK.format(body=RUNS_THE_PARENTS.strip()))


def test_a_child_process_is_forked_while_other_threads_run() -> None:
    busy = """
    other = session(SOURCE, OWN)
    def forever():
        while True:
            run(other)
    threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.05)
    """
    output(busy + FORK.format(body="run(session(SOURCE, OWN))"))


def test_a_thousand_sessions_leave_nothing_behind() -> None:
    printed = output(
        """
        def resident():
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        def some(count):
            for _ in range(count):
                run(session(SOURCE, OWN))
        some(300)
        grown = []
        for _ in range(3):
            before = resident()
            some(400)
            grown.append(resident() - before)
        from ort_lite_ep.library import library
        library = library()
        print(min(grown), len(library._partitions), len(library.reports.find(OWN)))
        """,
        seconds=120,
    )
    grown, *left = map(int, printed.split())
    assert left == [0, 64]
    assert grown < 400 * 250, f"{grown} bytes more after 400 sessions"  # onnxruntime's own leave 40 to 90 each
