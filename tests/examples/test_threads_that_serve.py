"""`examples/threads_that_serve.py`: every thread gets the answers to its own questions, and a deadline harms nobody else."""

import numpy as np
import pytest

from examples import threads_that_serve
from examples.threads_that_serve import FOLDER, Images, Server


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@pytest.fixture(scope="module")
def images() -> Images:
    with np.load(FOLDER / "test_images.npz") as data:
        read: Images = data["images"]
    return read


def test_threads_get_the_answers_that_one_gets(server: Server, images: Images) -> None:
    requests = np.split(images, [1, 3, 60, 61, 200])
    expected, _, _ = threads_that_serve.serve(server, requests, 1)
    assert [len(digits) for digits in expected] == [len(request) for request in requests]
    answers, seconds, total = threads_that_serve.serve(server, requests * 20, 6)
    assert answers == expected * 20
    assert 0 < max(seconds) <= total


def test_what_takes_too_long_is_ended_and_the_next_request_answered(server: Server, images: Images) -> None:
    before = server.answer(images)
    said, after = threads_that_serve.too_long(server, images[:1])
    assert "longer than its timeout of 0.005 s" in said
    assert 0.005 <= after < 2
    assert server.answer(images, timeout=60) == before


def test_it_prints_that_the_digits_were_read(capsys: pytest.CaptureFixture[str]) -> None:
    threads_that_serve.main()
    assert "99.4% of the digits were read right" in capsys.readouterr().out
