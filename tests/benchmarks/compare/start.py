"""Load and run one model in this fresh process, and print what that took as JSON: seconds of the import, of the session's creation and
from the first line to the first result; bytes of memory that were resident at most after creation and after ten runs.

    python start.py MODEL.onnx FEEDS.npz       or, for the import alone,       python start.py

Runs in the environment of either version, so it imports the public API alone, and nothing of this repository. Memory is Linux's.
"""

import time

START = time.perf_counter()
from ort_lite import InferenceSession, SessionOptions  # noqa: E402  timed

IMPORTED = time.perf_counter()
import json  # noqa: E402
import sys  # noqa: E402

import numpy as np  # noqa: E402

RUNS = 10


def peak_memory() -> int:
    """Return the most bytes that have been resident so far."""
    with open("/proc/self/status", encoding="utf-8") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def main() -> None:
    measured = {"import": IMPORTED - START}
    if len(sys.argv) > 1:
        model, path = sys.argv[1:]
        with np.load(path) as arrays:
            feeds = {
                name: arrays[name].astype(object) if arrays[name].dtype.kind == "U" else arrays[name] for name in arrays.files
            }
        options = SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        before = time.perf_counter()
        session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
        created = time.perf_counter()
        measured |= {"creation": created - before, "peak memory of load": peak_memory()}
        session.run(None, feeds)
        measured["first result"] = time.perf_counter() - START
        for _ in range(RUNS):
            session.run(None, feeds)
        measured["peak memory of run"] = peak_memory()
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
