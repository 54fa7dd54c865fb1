"""`examples/scale_out`: each engine scores what one process scores. Triton's server is no package: its model is not run here."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.processes import child

FOLDER = Path(__file__).parents[1] / "scale_out"
DIGITS = FOLDER.parent / "digits"
SAID = "360 of 360 pictures scored as by one process"


@pytest.mark.parametrize(("engine", "times"), [("multiprocessing", 1), ("joblib", 2), ("dask", 1), ("spark", 1)])
def test_an_engine_scores_as_one_process(engine: str, times: int) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / f"with_{engine}.py"], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.stdout.count(SAID) == times, done.stderr


def test_bentoml_answers_as_one_process() -> None:
    images = np.load(DIGITS / "test_images.npz")["images"]
    with _served() as address:
        answers = [_classified(address, part) for part in np.array_split(images, 6)]
    alone = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, numpy as np, scoring; np.save(sys.stdout.buffer, scoring.probabilities(scoring.test_images()))",
        ],
        cwd=FOLDER,
        capture_output=True,
        check=True,
        timeout=240,
    ).stdout
    expected = np.frombuffer(alone[-360 * 10 * 4 :], np.float32).reshape(360, 10)
    np.testing.assert_allclose(np.concatenate(answers), expected, rtol=1e-5, atol=1e-6)


def _classified(address: str, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    body = json.dumps({"images": images.tolist()}).encode()
    with urlopen(Request(f"{address}/classify", body, {"Content-Type": "application/json"}), timeout=60) as answer:
        return np.array(json.load(answer), np.float32)


@contextmanager
def _served() -> Iterator[str]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "bentoml", "serve", "bentoml_service:Digits", "--host", "127.0.0.1", "--port", str(port)]
    with child(command, cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:  # its workers are in groups of their own, and it ends them
            process.terminate()
            process.wait(30)


def _wait(address: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(URLError, ConnectionError), urlopen(f"{address}/readyz", timeout=60):
            return
        time.sleep(0.2)
    raise TimeoutError(f"{address} was not ready after 60 s")
