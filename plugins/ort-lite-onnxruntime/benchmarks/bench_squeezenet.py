"""Compare light_squeezenet through ort_lite's onnxruntime provider with onnxruntime itself: alternating runs, medians.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-onnxruntime/benchmarks/bench_squeezenet.py [THREADS [RUNS]]
"""

import statistics
import sys
import time

import numpy as np
import onnxruntime

import ort_lite
from tests.models.light_models import image, randomised


def main() -> None:
    """Measure both runtimes and print the medians and their ratio."""
    threads, runs = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 1), (2, 200)))
    model, providers = randomised("squeezenet"), ["OnnxRuntimeExecutionProvider", "CPUExecutionProvider"]
    options, their_options = ort_lite.SessionOptions(), onnxruntime.SessionOptions()
    options.intra_op_num_threads = their_options.intra_op_num_threads = threads
    ours = ort_lite.InferenceSession(model, options, providers=providers)
    theirs = onnxruntime.InferenceSession(model, their_options, providers=["CPUExecutionProvider"])
    assert len(ours.explain().assignment.partitions) == 1
    feeds = {ours.get_inputs()[0].name: image()}
    np.testing.assert_allclose(ours.run(None, feeds)[0], theirs.run(None, feeds)[0], rtol=1e-3, atol=1e-5)
    times: dict[str, list[float]] = {"ort_lite": [], "onnxruntime": []}
    for _ in range(runs):
        for name, run in (("ort_lite", ours.run), ("onnxruntime", theirs.run)):
            begin = time.perf_counter()
            run(None, feeds)
            times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(found[runs // 10 :]) * 1e3 for name, found in times.items()}
    print(", ".join(f"{name} {median:.2f} ms" for name, median in medians.items()), end=", ")
    print(f"ratio {medians['ort_lite'] / medians['onnxruntime']:.3f} ({threads} threads, {runs} alternating runs, medians)")


if __name__ == "__main__":
    main()
