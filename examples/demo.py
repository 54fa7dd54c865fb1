"""The main job: read handwritten digits with a small CNN, shared out between a plugin provider and the CPU provider.

    python examples/demo.py      (or `make demo`, which first installs ort-lite and plugins/ort-lite-sample)

Prints who runs each node and why, the accuracy on the 360 held-out images, and the latency. Fails where the accuracy
is under 0.97. The model and the images come from `examples/train_digits.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import ort_lite

FOLDER = Path(__file__).parent / "digits"
PROVIDERS = ["SampleExecutionProvider", "CPUExecutionProvider"]
EXPECTED_ACCURACY = 0.97


def classify(session: ort_lite.InferenceSession, images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(N, 1, 8, 8) pixels from 0 to 16 -> (N,) digits."""
    (probabilities,) = session.run(["probabilities"], {"images": images})
    digits: NDArray[np.int64] = np.argmax(probabilities, axis=1)
    return digits


def batches(count: int, size: int) -> Iterator[slice]:
    yield from (slice(*edges) for edges in pairwise([*range(0, count, size), count]))


def evaluate(session: ort_lite.InferenceSession, images: NDArray[np.uint8], labels: NDArray[np.uint8], size: int) -> str:
    """One line: accuracy over all images in batches of `size`, median latency of a batch that was not the first."""
    right, seconds = 0, []
    for batch in batches(len(images), size):
        start = perf_counter()
        digits = classify(session, images[batch])
        seconds.append(perf_counter() - start)
        right += int((digits == labels[batch]).sum())
    accuracy = right / len(images)
    if accuracy < EXPECTED_ACCURACY:
        raise SystemExit(f"accuracy {accuracy:.4f} in batches of {size}: expected at least {EXPECTED_ACCURACY}")
    first, rest = seconds[0], median(seconds[1:])
    return f"{size:>10}  {accuracy:>8.4f}  {first * 1e3:>13.3f}  {rest * 1e3:>14.3f}  {rest * 1e6 / size:>20.1f}"


def main() -> None:
    with np.load(FOLDER / "test_images.npz") as data:
        images, labels = data["images"], data["labels"]

    start = perf_counter()
    session = ort_lite.InferenceSession(FOLDER / "digits_cnn.onnx", providers=PROVIDERS)
    print(f"Session over {', '.join(session.get_providers())}: created in {perf_counter() - start:.2f} s\n")
    print(session.explain())

    print(f"\n{len(images)} held-out images of handwritten digits")
    print("batch size  accuracy  first run, ms  median run, ms  median per image, us")
    for size in (1, 8, 64):
        print(evaluate(session, images, labels, size))


if __name__ == "__main__":
    main()
