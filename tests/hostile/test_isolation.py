"""What a model makes the process do: nothing with sockets, no other program, no code of its names, and no change of a feed."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.load.proto import pb
from tests.case_server import Outcome
from tests.load.models import proto

PAYLOAD = "\"]); __import__('os').system('touch PWNED') # \n'''"
"""A name of a node, a value, a graph and a domain."""
NETWORK = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "ssl.")
PROGRAMS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")


class Watch:
    """The audit events of the process while it is on. A hook cannot be removed, so it is added at the first use, in the child."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.on = self._added = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on:
            shown = ascii(arguments)[:10_000] if event.startswith((*NETWORK, *PROGRAMS, "compile", "exec", "open")) else ""
            self.events.append((event, shown))

    def while_it_does(self, act: Callable[[], None]) -> list[tuple[str, str]]:
        if not self._added:
            sys.addaudithook(self._hear)
            self._added = True
        self.events, self.on = [], True
        try:
            act()
        finally:
            self.on = False
        return self.events


WATCH = Watch()


def model() -> pb.ModelProto:
    """One operator of each way to be computed: fused loops, a product, a body, texts."""
    return proto(
        """g (float[N, 4] x, string[M] s) => (float[N, 2] y, string[M] t) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8},
        bool[1] yes = {1}, float[1] half = {0.5}> {
        a = MatMul(x, w)  b = Mul(a, half)  c = Tanh(b)
        y = If (yes) <then_branch = p () => (float[N, 2] d) { d = Neg(c) }, else_branch = q () => (float[N, 2] e) { e = Abs(c) }>
        t = StringNormalizer <case_change_action = "UPPER"> (s) }"""
    )


def hostile() -> bytes:
    """The same with names that are Python, where a name may be anything."""
    made = model()
    made.graph.name = made.producer_name = PAYLOAD
    for k, node in enumerate(made.graph.node):
        node.name = f"{PAYLOAD}{k}"
        node.doc_string = PAYLOAD
    renamed = {value: f"{PAYLOAD}{value}" for node in made.graph.node for value in node.output if value in ("a", "b")}
    for node in made.graph.node:
        for names in (node.input, node.output):
            for k, name in enumerate(names):
                names[k] = renamed.get(name, name)
    return bytes(made.SerializeToString())


def used(data: bytes) -> Callable[[], None]:
    """Load, run with both kinds of paths, save, and close."""

    def act() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(data)
            options = ort_lite.SessionOptions()
            options.optimized_model_filepath = str(Path(folder, "saved.onnx"))
            with ort_lite.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]) as session:
                for rows in (1, 3):
                    feed = {"x": np.ones((rows, 4), np.float32), "s": np.array(["a", "b"], object)}
                    assert session.run(None, feed, timeout=60)[0].shape == (rows, 2)
                session.explain()

    return act


def no_socket() -> None:
    events = WATCH.while_it_does(used(bytes(model().SerializeToString())))
    assert len(events) > 10, "the watch hears nothing"
    assert [event for event in events if event[0].startswith(NETWORK)] == []


def a_socket_is_seen() -> None:
    """The watch would hear of one."""
    import socket

    def connect() -> None:
        with socket.socket() as made:
            made.bind(("127.0.0.1", 0))

    assert any(name.startswith("socket.") for name, _ in WATCH.while_it_does(connect))


def no_code_of_names() -> None:
    used(bytes(model().SerializeToString()))()  # what has to be compiled is
    events = WATCH.while_it_does(used(hostile()))
    assert [event for event in events if event[0].startswith(PROGRAMS)] == []
    assert [event for event in events if event[0] in ("compile", "exec") and "PWNED" in event[1]] == []
    assert not Path("PWNED").exists()


def feeds_stay() -> None:
    """Nodes that may compute in the memory of their input leave that of the caller alone, also where it cannot be written to."""
    model = proto(
        """g (float[N] x, int64[2] i, float[2] u, int64 n) => (float[N] y, float[N] z, float[N] s, float[N] l) <bool yes = {1}> {
        y = Relu(x)  z = ScatterElements(x, i, u)  t = Neg(x)  s = Abs(t)
        l = Loop (n, yes, x) <body = b (int64 k, bool go, float[N] a) => (bool on, float[N] c) { on = Identity(go)  c = Neg(a) }> }"""
    )
    session = ort_lite.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in (3, 50_000):
        feed = {
            "x": np.linspace(-1, 1, size, dtype=np.float32),
            "i": np.array([0, 2]),
            "u": np.array([5, 6], np.float32),
            "n": np.array(3),
        }
        before = {name: array.copy() for name, array in feed.items()}
        for frozen in (False, True):
            for array in feed.values():
                array.flags.writeable = not frozen
            results = session.run(None, feed)
            for name, array in feed.items():
                np.testing.assert_array_equal(array, before[name])
                assert not any(np.shares_memory(array, result) for result in results)


def nothing_at_exit() -> None:
    """A process that loads and runs a model opens no socket when it exits either."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        used(bytes(model().SerializeToString()))()
        sys.addaudithook(lambda event, arguments: os.write(write, b"!") and None if event.startswith(NETWORK) else None)
        import atexit

        atexit._run_exitfuncs()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        assert stream.read() == b""
    assert os.waitpid(child, 0)[1] == 0


CASES: dict[str, Callable[[], None]] = {
    "a socket is seen": a_socket_is_seen,
    "no socket": no_socket,
    "no code of names": no_code_of_names,
    "nothing at exit": nothing_at_exit,
    "feeds stay": feeds_stay,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_model_does_nothing_else(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name) == ""
