"""Who hears how far compiling is, and when."""

import logging
from collections.abc import Sequence

import onnx.parser
import pytest

import ort_lite
from ort_lite.native import progress
from ort_lite.native.progress import Progress, Reported, Tell, listen, piece
from ort_lite.provider import CompiledPartition, Partition
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


def test_the_log_has_one_message_at_the_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ort_lite")
    compile_some(clock, Reported(), (3,), 0.25)
    compile_some(clock, Reported(severity=2), (3,), 30.0)
    with piece(Reported()):
        pass
    assert caplog.messages == []
    compile_some(clock, Reported(), (20, 10), 0.5)
    assert caplog.messages == ["compiled 30 kernels in 15.0 s"]
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_what_ends_early_says_how_far_it_came(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ort_lite")

    def interrupted() -> None:
        with piece(Reported()) as seen, seen.more(5):
            clock.now += 2
            seen.advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert caplog.messages[-1] == "compiled 1 of 5 kernels in 2.0 s"


class Slow(CpuStandIn):
    """Compiles a kernel for two seconds."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        with piece(Reported()) as seen, seen.more(1):
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
    assert messages == (["compiled 1 kernel in 2.0 s"] if said else [])
