"""The light models: outputs beside onnxruntime's, no step in Python, and many threads in one session."""

import threading

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.memory.planning.checker import check
from tests.models.beside_onnxruntime import assert_same, ours, theirs
from tests.models.light_models import NAMES, image, randomised
from tests.threads import join

pytestmark = pytest.mark.slow

THREADS, RUNS = 8, 100


@pytest.mark.parametrize("name", NAMES)
def test_a_light_model_gives_what_onnxruntime_gives_without_python_steps(name: str) -> None:
    model = randomised(name)
    session, reference = ours(model, threads=2), theirs(model)
    assert session.explain().python_steps == 0
    for scale in (1, -0.5):
        feeds = {session.get_inputs()[0].name: image() * np.float32(scale)}
        outputs = assert_same(session, reference, feeds, f"light_{name}, image * {scale}:")
        assert all(np.ptp(output) > 0.01 * np.abs(output).max() for output in outputs), "the outputs tell nothing"
    [plan] = session.memory_plans().values()
    check(plan)
    assert plan.certificate().gap == 0, str(plan)


@pytest.mark.parametrize("intra_op", [1, 2])
def test_many_threads_in_one_session_get_the_bits_of_serial_runs(intra_op: int) -> None:
    session = ours(randomised("shufflenet"), threads=intra_op)
    name = session.get_inputs()[0].name
    images = [image() * np.float32(1 + k) for k in range(THREADS)]
    serial = [session.run(None, {name: x}) for x in images]
    wrong: list[str] = []

    def work(number: int) -> None:
        for run in range(RUNS):
            outputs = session.run(None, {name: images[number]})
            if not all(map(same_bits, outputs, serial[number])):
                wrong.append(f"thread {number}, run {run}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert wrong == []


def same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
