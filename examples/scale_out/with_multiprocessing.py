"""The standard library: a pool of processes, each with a session of its own.

    python examples/scale_out/with_multiprocessing.py

Processes are spawned: each imports this file and makes its session at its first part. Threads over one session are simpler and as fast
(examples/threads_that_serve.py); processes are for code around the model that holds the GIL.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from scoring import probabilities, report, test_images


def main() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = pool.map(probabilities, np.array_split(test_images(), 8))
        report(np.concatenate(list(parts)))


if __name__ == "__main__":
    main()
