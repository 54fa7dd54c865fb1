"""Resident memory after 100 runs, less that of a process that imported the runtime and ran a model of one node, against
onnxruntime. Fresh processes, one thread, warm kernel cache. Linux only: the figures come from /proc/self/smaps_rollup.

python tests/benchmarks/bench_memory.py MODEL.onnx 1x3x640x640 [PROCESSES]     one shape for all inputs

Prints medians in MB (10^6 bytes): resident, of it private and dirty, and the import's share.
"""

import subprocess
import sys
from statistics import median

CHILD = """
import sys
import numpy as np
import {module} as runtime

def resident():
    rows = dict(line.split()[:2] for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    return [1024 * int(rows[key]) for key in ("Rss:", "Private_Dirty:")]

def session(model):
    options = runtime.SessionOptions(); options.intra_op_num_threads = 1
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

def feed(made, shape):
    kinds = {{"tensor(float)": np.float32, "tensor(int64)": np.int64}}
    return {{a.name: np.ones(shape, kinds[a.type]) for a in made.get_inputs()}}

small = session(bytes.fromhex({small!r}))
small.run(None, feed(small, (2, 3)))
before = resident()
if {model!r}:
    made = session({model!r})
    inputs = feed(made, {shape!r})
    for _ in range(100):
        made.run(None, inputs)
print(*before, *resident())
"""


def one_node() -> str:
    from onnx import parser

    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[a, b] x) => (float[a, b] y) { y = Relu(x) }'
    made: bytes = parser.parse_model(text).SerializeToString()
    return made.hex()


def measured(module: str, model: str, shape: tuple[int, ...]) -> list[int]:
    """Resident and private dirty bytes, of a model of one node, then after 100 runs of `model`."""
    code = CHILD.format(module=module, model=model, shape=shape, small=one_node())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def main() -> None:
    model, shape = sys.argv[1], tuple(int(dim) for dim in sys.argv[2].split("x"))
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    measured("ort_lite", model, shape)
    for module in ("onnxruntime", "ort_lite"):
        rows = [measured(module, model, shape) for _ in range(processes)]
        base, base_dirty, full, full_dirty = (median(column) / 1e6 for column in zip(*rows, strict=True))
        print(
            f"{module:12} model and runs {full - base:7.1f} MB resident, {full_dirty - base_dirty:7.1f} MB private and dirty; "
            f"import and one node {base:6.1f} MB"
        )


if __name__ == "__main__":
    main()
