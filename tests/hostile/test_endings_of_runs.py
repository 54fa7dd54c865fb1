"""Runs that would take from seconds to days: each ends soon after its time is over, and the session is as good as before.

`tests.cancellation` measures how soon, operator by operator. Here a busy machine may be late: LATE is little beside what a run takes.
"""

import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import Cancelled, DeadlineExceeded, RunTerminated
from tests.case_server import Outcome
from tests.hostile.building import operator_model

TIMEOUT, LATE = 0.05, 2.0


def session(model: onnx.ModelProto, threads: int = 1, **options: Any) -> ort_lite.InferenceSession:
    made = ort_lite.SessionOptions()
    made.intra_op_num_threads = threads
    for name, value in options.items():
        setattr(made, name, value)
    return ort_lite.InferenceSession(model.SerializeToString(), made)


def text(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {graph}')


def stops(made: ort_lite.InferenceSession, feeds: Mapping[str, Any], kind: type[RunTerminated], **how: Any) -> RunTerminated:
    """The error of a run that ends soon after its timeout, or that TIMEOUT."""
    begin = time.monotonic()
    with pytest.raises(kind) as caught:
        made.run(None, feeds, **how)
    late = time.monotonic() - begin - how.get("timeout", TIMEOUT)
    assert late < LATE, f"the run ended {late:.1f} s late"
    return caught.value


def f32(*shape: int) -> Array:
    """Numbers from -1 to 1, in no order; 2 ns each."""
    count = int(np.prod(shape))
    mixed = (np.arange(count, dtype=np.uint32) * np.uint32(2654435761)).view(np.int32)
    return (mixed / np.float32(2**31)).astype(np.float32).reshape(shape)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def loop_of_sequences(body: str, trips: int = 2**40) -> None:
    model = text(f"""(float[N] x) => (seq(float[M]) s) <int64 n = {{{trips}}}, bool go = {{1}}> {{
        empty = SequenceEmpty()
        s = Loop(n, go, empty) <body = step(int64 i, bool c, seq(float[M]) before) => (bool d, seq(float[M]) after) {{
            d = Identity(c)
            {body}
        }}>
    }}""")
    stops(session(model), {"x": f32(1 << 20)}, DeadlineExceeded, timeout=0.3)


def mapped() -> None:
    """Two million calls of a body."""
    model = text("""(float[N] x) => (seq(float[M]) s) {
        parts = SplitToSequence<keepdims = 0>(x)
        s = SequenceMap(parts) <body = step(float a) => (float b) { b = Neg(a) }>
    }""")
    stops(session(model), {"x": f32(2_000_000)}, DeadlineExceeded, timeout=0.3)


def joined() -> None:
    """Two million arrays, which were one."""
    model = text("(float[N] x) => (float[N] y) { s = SplitToSequence(x) y = ConcatFromSequence<axis = 0>(s) }")
    stops(session(model), {"x": f32(2_000_000)}, DeadlineExceeded, timeout=1)


POOLED = zeros(1, 1, 3000, 3000)


def pooling(threads: int = 1, **options: Any) -> ort_lite.InferenceSession:
    """A kernel that takes minutes on 36 MB, and no time on a few pixels."""
    model = operator_model("AveragePool", [POOLED], kernel_shape=[1500, 1500], pads=[1499] * 4)
    return session(model, threads, **options)


def check_usable(made: ort_lite.InferenceSession) -> None:
    x = np.full((1, 1, 2, 2), 3, np.float32)
    np.testing.assert_allclose(made.run(None, {"in0": x})[0][0, 0, :2, :2], 3)


def terminated(threads: int) -> None:
    made, options = pooling(threads), ort_lite.RunOptions()
    timer = threading.Timer(TIMEOUT, setattr, (options, "terminate", True))
    timer.start()
    stops(made, {"in0": POOLED}, Cancelled, run_options=options)
    timer.join(20)
    check_usable(made)


def many_times() -> None:
    made = pooling(2)
    for number in range(20):
        stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=0.001 + 0.0007 * number)
    check_usable(made)


def side_by_side() -> None:
    """One run of two ends; the other gives what it gives alone."""
    made = session(operator_model("MatMul", [f32(2, 2), f32(2, 2)]), 2)
    x, pooled, results = f32(1000, 1000), pooling(2), list[Array]()
    alone = made.run(None, {"in0": x, "in1": x})[0]
    worker = threading.Thread(
        target=lambda: results.extend(made.run(None, {"in0": x, "in1": x}, timeout=60)[0] for _ in range(3))
    )
    worker.start()
    for _ in range(3):
        stops(pooled, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT)
    worker.join(60)
    assert [result.tobytes() == alone.tobytes() for result in results] == [True] * 3


def with_signals_blocked() -> None:
    made, seen = pooling(), list[BaseException]()

    def work() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT)
        except BaseException as error:  # noqa: BLE001  the thread of the case raises it
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert seen == []


def with_strange_signals() -> None:
    """Signals of the same number from elsewhere mean nothing.

    They are sent to the main thread, which handles them before it goes on: a thread that sleeps on a busy machine would handle one
    later, in the next case.
    """
    made, main = pooling(), threading.main_thread().ident
    assert main is not None
    stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT)
    timers = [threading.Timer(0.01 * k, signal.pthread_kill, (main, signal.SIGURG)) for k in range(5)]
    for timer in timers:
        timer.start()
    check_usable(made)
    stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=0.1)
    for timer in timers:
        timer.join(20)


def with_a_handler_of_the_program() -> None:
    """The signal is its own: runs use another, or if it takes the signal later, end with their kernels.

    In a child: a thread of an earlier run that waits for a processor may have a signal of that run still before it.
    """
    in_a_child(_with_a_handler)


def _with_a_handler() -> None:
    heard = list[int]()
    signal.signal(signal.SIGURG, lambda number, _: heard.append(number))
    made = pooling()
    stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT)
    assert heard == []
    os.kill(os.getpid(), signal.SIGURG)
    end = time.monotonic() + 5
    while not heard and time.monotonic() < end:
        time.sleep(0.001)
    assert heard == [signal.SIGURG]


def in_a_fork() -> None:
    made = pooling(2)
    stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT)
    in_a_child(lambda: stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT))


def in_a_child(case: Callable[[], object]) -> None:
    child = os.fork()
    if not child:
        try:
            case()
        except BaseException:  # noqa: BLE001  the status says it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def with_a_profile() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = pooling(enable_profiling=True, profile_file_prefix=f"{folder}/trace")
        stops(made, {"in0": POOLED}, DeadlineExceeded, timeout=TIMEOUT)
        assert Path(made.end_profiling()).read_text(encoding="utf-8")


def rounding_is_as_before() -> None:
    """A kernel that is left leaves the thread's arithmetic alone."""
    stops(session(operator_model("Sin", [zeros(2)])), {"in0": f32(1 << 24)}, RunTerminated, timeout=0.002)
    assert (0.1 + 0.2, 1e-310 / 10 > 0) == (0.30000000000000004, True)


CASES: dict[str, Callable[[], None]] = {
    "a loop that inserts": partial(loop_of_sequences, "after = SequenceInsert(before, x)"),
    "a loop that splits": partial(loop_of_sequences, "one = Constant<value_int = 1>() after = SplitToSequence(x, one)"),
    "a loop that joins": partial(
        loop_of_sequences,
        "two = Constant<value_int = 2>() parts = SplitToSequence(x, two) all = ConcatFromSequence<axis = 0>(parts)"
        " after = SequenceInsert(before, all)",
    ),
    "a sequence that is mapped": mapped,
    "a sequence that is joined": joined,
    "terminate": partial(terminated, 1),
    "terminate, two threads": partial(terminated, 2),
    "many times": many_times,
    "side by side": side_by_side,
    "signals are blocked": with_signals_blocked,
    "strange signals": with_strange_signals,
    "in a fork": in_a_fork,
    "with a profile": with_a_profile,
    "rounding": rounding_is_as_before,
    "a handler of the program": with_a_handler_of_the_program,
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_soon_after_its_time(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=60, megabytes=4096) == ""
