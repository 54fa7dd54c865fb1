"""A session's state is swapped whole: runs, `load_params` and `close` from many threads see one model each."""

import sys
import threading
from collections.abc import Iterator

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, RuntimeException
from tests.threads import run_together

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
main (float[2] x) => (float[2] y, float[2] z) <float[2] v = {0, 0}, float[2] w = {0, 0}> { y = Add(x, v) z = Add(x, w) }"""
THREADS, CALLS = 8, 10_000
X = np.ones(2, np.float32)


@pytest.fixture
def session() -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(onnx.parser.parse_model(MODEL))


@pytest.fixture(autouse=True)
def _short_turns() -> Iterator[None]:
    """Threads take turns often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # at 1e-6 a busy machine does little but hand over
    yield
    sys.setswitchinterval(interval)


def params(value: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    return dict.fromkeys("vw", np.full(2, value, np.float32))


@pytest.mark.slow
def test_a_run_sees_one_set_of_parameters(session: ort_lite.InferenceSession) -> None:
    def work(number: int) -> None:
        for turn in range(CALLS // THREADS):
            if turn % 60 == number:
                session.load_params(params(turn))
            y, z = session.run(None, {"x": X})
            np.testing.assert_array_equal(y, z)
            assert session.get_inputs()[0].name == "x"

    run_together(work, THREADS)


@pytest.mark.parametrize("attempt", range(5))
def test_closing_ends_everything_once(session: ort_lite.InferenceSession, attempt: int) -> None:
    """A run that began before ends as if nothing had happened; nothing after it finds a session that is open again."""
    closed = threading.Event()

    def work(number: int) -> None:
        for turn in range(30):
            if number == 0 and turn == 20:
                session.close()
                closed.set()
            late = closed.is_set()
            try:
                if number % 2:
                    session.load_params(params(turn))
                y, z = session.run(None, {"x": X})
            except (RuntimeException, InvalidArgument) as error:
                assert "closed" in str(error)  # noqa: PT017  either is right
            else:
                assert not late, "a session that was closed ran"
                np.testing.assert_array_equal(y, z)
        session.close()

    run_together(work, THREADS)
    with pytest.raises(RuntimeException, match="the session is closed"):
        session.run(None, {"x": X})
    with pytest.raises(InvalidArgument, match="the session is closed"):
        session.load_params(params(1))
    assert "Add" in str(session.explain())
    assert session.memory()["constants"] == 0


def test_a_failed_change_changes_nothing(session: ort_lite.InferenceSession) -> None:
    session.load_params(params(2))
    with pytest.raises(InvalidArgument, match="no parameter 'u'"):
        session.load_params({**params(3), "u": X})
    np.testing.assert_array_equal(session.run(["z"], {"x": X})[0], X + 2)
