"""What a new shape costs: first run of a length minus the median of five repeats, lengths 5, 10, ... 500 in random order.

python tests/benchmarks/bench_shapes.py MODEL.onnx      a sentence encoder: int64 inputs (batch, sequence)
"""

import random
import sys
from statistics import median
from time import perf_counter

import numpy as np

import ort_lite


def main() -> None:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort_lite.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    names = [argument.name for argument in session.get_inputs()]

    def timed(length: int) -> float:
        feed = {name: np.ones((1, length), np.int64) for name in names}
        start = perf_counter()
        session.run(None, feed)
        return perf_counter() - start

    for length in (501, 502, 500 + 3):
        timed(length)  # warm-up: scratch has its size afterwards
    lengths = list(range(5, 501, 5))
    random.Random(0).shuffle(lengths)
    extra = []
    for length in lengths:
        first = timed(length)
        extra.append((first - median(timed(length) for _ in range(5))) * 1e3)
    print(f"first run of a length minus a repeat: median {median(extra):.3f} ms, worst {max(extra):.3f} ms")


if __name__ == "__main__":
    main()
