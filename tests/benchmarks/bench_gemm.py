"""MatMul by a constant against onnxruntime's, one thread, for ordinary, thin and odd sizes.

    python -m tests.benchmarks.bench_gemm

Prediction: both read packed panels with a register tile of the same shape, so ratios lie around 1 wherever arithmetic or
memory is the limit; tiny products gain from cheap calls.
"""

import numpy as np

from tests.benchmarks.pairs import compare, model_of

SIZES = [
    (512, 512, 512), (1024, 1024, 1024), (128, 768, 768), (128, 768, 3072), (128, 3072, 768), (1, 768, 3072), (1, 2048, 1000),
    (3136, 64, 64), (784, 1152, 128), (196, 2304, 256), (49, 2048, 512), (101, 203, 307), (7, 100, 33), (2, 256, 256),
]  # fmt: skip
"""(m, k, n)"""


def main() -> None:
    random, ratios = np.random.default_rng(0), []
    for m, k, n in SIZES:
        x, w = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
        ratios.append(compare(f"({m}, {k}) @ ({k}, {n})", model_of([("MatMul", {}, [w])], x), x, 2e-9 * m * k * n))
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
