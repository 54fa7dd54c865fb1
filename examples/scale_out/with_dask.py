"""Dask: an array in chunks, each scored when it is needed; data may be larger than memory.

    python examples/scale_out/with_dask.py

Dask's threads share one session. With `dask.distributed` the same graph runs on workers of a cluster: the function travels, the session
does not, and each worker makes its own.
"""

import dask.array
import numpy as np
from scoring import probabilities, report, test_images


def main() -> None:
    images = dask.array.from_array(test_images(), chunks=(50, 1, 8, 8))
    scored = images.map_blocks(probabilities, dtype=np.float32, drop_axis=[2, 3], chunks=(images.chunks[0], (10,)))
    report(scored.compute(num_workers=2))


if __name__ == "__main__":
    main()
