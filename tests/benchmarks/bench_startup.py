"""From the start of a new process: import, session, first result, against onnxruntime. The kernel cache is warm, and modules are
compiled to byte code, as those of an installed package are.

python tests/benchmarks/bench_startup.py MODEL.onnx [RUNS]
"""

import os
import subprocess
import sys
from statistics import median

CHILD = """
import time; start = time.perf_counter()
import numpy as np
import {module} as runtime
options = runtime.SessionOptions(); options.intra_op_num_threads = 1
session = runtime.InferenceSession({model!r}, options, providers=["CPUExecutionProvider"])
feed = {{a.name: np.ones([d if isinstance(d, int) else 1 for d in a.shape], np.float32) for a in session.get_inputs()}}
session.run(None, feed)
print(time.perf_counter() - start)
"""


def seconds(module: str, model: str) -> float:
    code = CHILD.format(module=module, model=model)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def main() -> None:
    model, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    seconds("ort_lite", model)
    pairs = [(seconds("onnxruntime", model), seconds("ort_lite", model)) for _ in range(runs)]
    theirs, ours = (median(column) for column in zip(*pairs, strict=True))
    print(f"import to first result: onnxruntime {theirs:.3f} s, ort_lite {ours:.3f} s, {ours / theirs:.2f} times")


if __name__ == "__main__":
    main()
