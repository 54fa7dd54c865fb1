"""What the recipes of this folder score: pictures of digits, by a session that each process makes once."""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ort_lite

FOLDER = Path(__file__).parents[1] / "digits"
MODEL = FOLDER / "digits_cnn.onnx"

Images = NDArray[np.uint8]


@cache
def session() -> ort_lite.InferenceSession:
    """This process's. One thread a run: the engine has as many runs at once as there are cores."""
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    return ort_lite.InferenceSession(MODEL, options, ["CPUExecutionProvider"])


def probabilities(images: Images) -> NDArray[np.float32]:
    """(n, 1, 8, 8) pixels -> (n, 10)."""
    found: NDArray[np.float32] = session().run(["probabilities"], {"images": images})[0]
    return found


def test_images() -> Images:
    images: Images = np.load(FOLDER / "test_images.npz")["images"]
    return images


def report(found: NDArray[np.float32]) -> None:
    """Says how many rows are what this process alone would say."""
    alone = probabilities(test_images())
    same = int(np.isclose(found, alone, rtol=1e-5, atol=1e-6).all(1).sum())
    print(f"{same} of {len(alone)} pictures scored as by one process")
