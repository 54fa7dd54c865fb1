"""Compare light_resnet50 through ort_lite's OpenVINO provider with OpenVINO itself: alternating runs, medians.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-openvino/benchmarks/bench_resnet50.py [THREADS [RUNS]]
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import openvino

import ort_lite
from ort_lite.dtypes import Array
from tests.models.light_models import image, randomised

Run = Callable[[Array], Array]


def through_ort_lite(model: bytes, threads: int) -> Run:
    """Return a function that runs the model through ort_lite."""
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort_lite.InferenceSession(model, options, providers=["OpenVINOExecutionProvider", "CPUExecutionProvider"])
    assert len(session.explain().assignment.partitions) == 1
    name = session.get_inputs()[0].name

    def run(x: Array) -> Array:
        result: Array = session.run(None, {name: x})[0]
        return result

    return run


def directly(model: bytes, threads: int) -> Run:
    """Return a function that runs OpenVINO as its guide recommends for low latency: one request, shared inputs."""
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    request = core.compile_model(core.read_model(model), "CPU", config).create_infer_request()

    def run(x: Array) -> Array:
        result: Array = request.infer([x], share_inputs=True)[0]
        return result

    return run


def main() -> None:
    """Measure both runtimes and print the medians and their ratio."""
    threads, runs = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 2), (2, 200)))
    model, x = randomised("resnet50"), image()
    ours, theirs = through_ort_lite(model, threads), directly(model, threads)
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-3, atol=1e-5)
    times: dict[str, list[float]] = {"ort_lite": [], "openvino": []}
    for _ in range(runs):
        for name, run in (("ort_lite", ours), ("openvino", theirs)):
            begin = time.perf_counter()
            run(x)
            times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(found[runs // 10 :]) * 1e3 for name, found in times.items()}
    print(", ".join(f"{name} {median:.2f} ms" for name, median in medians.items()), end=", ")
    print(f"ratio {medians['ort_lite'] / medians['openvino']:.3f} ({threads} threads, {runs} alternating runs, medians)")


if __name__ == "__main__":
    main()
