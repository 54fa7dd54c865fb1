"""Many threads on the same sessions.

Each thread runs by every door in turn: `run`, with options, with a deadline, OrtValues, an IOBinding into memory of its own. In between
it feeds what is wrong, ends runs early, and makes, closes and drops sessions. Results are those of a serial run to the bit, errors
those that must come; afterwards no thread, file descriptor or memory is left over.
"""

import gc
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser

import ort_lite
from ort_lite.errors import InvalidArgument, RunTerminated
from tests.threads import join

Feed = Mapping[str, Any]

MODELS = {
    "product": "(float[N,32] x) => (float[N,32] y) { a = MatMul(x, w) b = Relu(a) y = Add(b, x) }",
    "shared": "(float[N,32] x) => (float[N,32] y) { a = MatMul(x, w) b = Softmax(a) c = MatMul(b, w) y = Sub(c, x) }",
    "loop": """(float[N,32] x) => (float[N,32] y) <int64 n = {7}, bool go = {1}> {
        y = Loop (n, go, x) <body = step (int64 i, bool c, float[N,32] v) => (bool d, float[N,32] u) {
            d = Identity(c)
            t = MatMul(v, w)
            u = Tanh(t)
        }>
    }""",
}
ROWS = (1, 5, 64)


def session(name: str, threads: int = 2) -> ort_lite.InferenceSession:
    weights = np.random.default_rng(0).standard_normal((32, 32), np.float32) / 8
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {MODELS[name]}')
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    return ort_lite.InferenceSession(proto, options, ["CPUExecutionProvider"])


class Case:
    """A session, its feeds, and what they give when nothing else happens."""

    def __init__(self, name: str) -> None:
        self.name, self.session = name, session(name)
        random = np.random.default_rng(1)
        self.feeds = [{"x": random.standard_normal((rows, 32), np.float32)} for rows in ROWS]
        self.wanted = [self.session.run(None, feed)[0] for feed in self.feeds]


def by_run(made: ort_lite.InferenceSession, feed: Feed) -> Any:
    return made.run(None, feed)[0]


def by_options(made: ort_lite.InferenceSession, feed: Feed) -> Any:
    return made.run(["y"], feed, ort_lite.RunOptions())[0]


def by_deadline(made: ort_lite.InferenceSession, feed: Feed) -> Any:
    return made.run(None, feed, timeout=600)[0]


def by_values(made: ort_lite.InferenceSession, feed: Feed) -> Any:
    given = {name: ort_lite.OrtValue.ortvalue_from_numpy(x) for name, x in feed.items()}
    return made.run_with_ort_values(None, given)[0].numpy()


def by_binding(made: ort_lite.InferenceSession, feed: Feed) -> Any:
    binding, y = made.io_binding(), np.empty_like(feed["x"])
    binding.bind_cpu_input("x", feed["x"])
    binding.bind_ortvalue_output("y", ort_lite.OrtValue.ortvalue_from_numpy(y))
    made.run_with_iobinding(binding)
    return binding.get_outputs()[0].numpy()


def of_a_new_session(made: ort_lite.InferenceSession, feed: Feed, name: str = "") -> Any:
    with session(name) as own:
        return own.run(None, feed)[0]


DOORS: Sequence[Callable[[ort_lite.InferenceSession, Feed], Any]] = (by_run, by_options, by_deadline, by_values, by_binding)


def wrong_feed(made: ort_lite.InferenceSession, turn: int) -> None:
    """Raises AssertionError where it is taken."""
    wrong: Sequence[Feed] = ({}, {"x": np.zeros((2, 31), np.float32)}, {"x": np.zeros((2, 32))}, {"x": None}, {"z": 1})
    try:
        made.run(None, wrong[turn % len(wrong)])
    except InvalidArgument:
        return
    raise AssertionError(f"a wrong feed was taken: {wrong[turn % len(wrong)]}")


def ended_run(made: ort_lite.InferenceSession, feed: Feed) -> None:
    options = ort_lite.RunOptions()
    options.terminate = True
    try:
        made.run(None, feed, options)
    except RunTerminated:
        return
    raise AssertionError("a run that was ended gave a result")


def turns(cases: Sequence[Case], number: int, runs: int) -> None:
    """What one thread does. Raises AssertionError for the first thing that is not as it must be."""
    for turn in range(runs):
        case = cases[(number + turn) % len(cases)]
        which = (number + turn) // len(cases) % len(ROWS)
        door = DOORS[(number + turn) % len(DOORS)]
        got = door(case.session, case.feeds[which])
        if turn % 50 == 25:
            got = of_a_new_session(case.session, case.feeds[which], case.name)
        assert got.tobytes() == case.wanted[which].tobytes(), f"{case.name} by {door.__name__}, {ROWS[which]} rows: other bits"
        if turn % 10 == 3:
            wrong_feed(case.session, turn)
        if turn % 10 == 7:
            ended_run(case.session, case.feeds[which])


def soak(cases: Sequence[Case], threads: int, runs: int) -> None:
    """Raises the first failure of a thread."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            turns(cases, number, runs)
        except BaseException as error:  # noqa: BLE001  raised below
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        join(worker)
    if failures:
        raise failures[0]


def held() -> tuple[int, int, int]:
    """(kilobytes in memory, threads of the system, file descriptors) of this process; Linux alone tells."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    descriptors = len(os.listdir("/proc/self/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir("/proc/self/task")), descriptors
