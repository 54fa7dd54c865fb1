"""Who hears how far compiling is, and when."""

import io
import logging
from collections.abc import Sequence

import onnx.parser
import pytest
from rich.console import Console

import ort_lite
from ort_lite.native import progress
from ort_lite.native.progress import Logged, Progress, Tell, listen, piece
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.tools.cli.compiling import Shown
from tests.provider.numpy_provider import CpuStandIn


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "perf_counter", made)
    return made


def compile_some(clock: Clock, tell: Tell, counts: tuple[int, ...], seconds: float) -> None:
    """One piece of work that needs kernels several times, each of which takes some seconds; as much passes in between."""
    with piece(tell):
        for count in counts:
            with piece(tell) as seen, seen.more(count):
                for _ in range(count):
                    clock.now += seconds
                    seen.advance()
            clock.now += seconds


def test_a_piece_counts_all_kernels_and_the_time_of_compiling_alone(clock: Clock) -> None:
    heard: list[tuple[int, int, float, bool]] = []
    compile_some(clock, lambda seen: heard.append((seen.done, seen.total, seen.seconds, seen.over)), (1, 2), 0.25)
    assert heard == [
        (0, 1, 0.0, False),
        (1, 1, 0.25, False),
        (1, 3, 0.25, False),
        (2, 3, 0.5, False),
        (3, 3, 0.75, False),
        (3, 3, 0.75, True),
    ]


def test_who_listens_hears_instead_of_the_logger(clock: Clock) -> None:
    heard, not_heard = list[Progress](), list[Progress]()
    with listen(heard.append):
        compile_some(clock, not_heard.append, (1,), 1.0)
        compile_some(clock, not_heard.append, (1,), 1.0)
    assert len({id(seen) for seen in heard}) == 2
    assert not_heard == []
    compile_some(clock, not_heard.append, (1,), 1.0)
    assert len(not_heard) == 3


def test_the_logger_hears_after_a_second_every_ten_and_at_the_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ort_lite")
    compile_some(clock, Logged(), (3,), 0.25)
    compile_some(clock, Logged(severity=2), (3,), 30.0)
    with piece(Logged()):
        pass
    assert caplog.messages == []
    compile_some(clock, Logged(), (20, 10), 0.5)
    assert caplog.messages == [
        "compiling kernels: 2 of 20 after 1.0 s",
        "compiling kernels: 22 of 30 after 11.0 s",
        "compiled 30 kernels in 15.0 s",
    ]
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_what_ends_early_says_how_far_it_came(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ort_lite")

    def interrupted() -> None:
        with piece(Logged()) as seen, seen.more(5):
            clock.now += 2
            seen.advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert caplog.messages[-1] == "compiled 1 of 5 kernels in 2.0 s"


class Slow(CpuStandIn):
    """Compiles a kernel for two seconds."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        with piece(Logged()) as seen, seen.more(1):
            self.clock.now += 2
            seen.advance()
        return super().compile(partitions)

    clock: Clock


@pytest.mark.parametrize(("severity", "said"), [(-1, True), (1, True), (2, False)])
def test_a_session_says_it_where_its_severity_lets_it(
    severity: int, said: bool, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ort_lite")
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> m (float[N] x) => (float[N] y) { y = Abs(x) }')
    options = ort_lite.SessionOptions()
    options.log_severity_level = severity
    provider = Slow()
    provider.clock = clock
    ort_lite.InferenceSession(model, options, providers=[provider])
    messages = [message for message in caplog.messages if not message.startswith("session made")]
    assert messages == (["compiling kernels: 1 of 1 after 2.0 s", "compiled 1 kernel in 2.0 s"] if said else [])


def shown(clock: Clock, terminal: bool) -> str:
    text = io.StringIO()
    tell = Shown(Console(file=text, force_terminal=terminal, width=60))
    compile_some(clock, tell, (3,), 0.25)
    assert text.getvalue() == ""
    compile_some(clock, tell, (2, 2), 1.0)
    return text.getvalue()


def test_a_pipe_gets_lines(clock: Clock) -> None:
    assert shown(clock, terminal=False).splitlines() == ["compiling kernels: 1 of 2", "compiled 4 kernels in 4.0 s"]


def test_a_terminal_gets_a_bar_that_vanishes(clock: Clock) -> None:
    text = shown(clock, terminal=True)
    assert "compiling kernels" in text
    assert "4/4" in text
    assert text.endswith("\x1b[2K")  # the line is empty again
