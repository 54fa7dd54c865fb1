"""Resident memory while many shapes come from many threads: whether it stays where it was, and what the session says it holds.

python tests/benchmarks/bench_growth.py [MODEL.onnx] [RUNS] [SHAPES] [THREADS]      10,000 runs, 500 shapes, 8 threads

Without a model: eight layers of 256 columns. A model needs one dynamic dimension an input; it gets the same value in all.
Exits with 1 where resident memory after the last run is more than 2% above that after a fifth of the runs. Linux only.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import ort_lite

KINDS = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


def resident() -> int:
    rows = dict(line.split()[:2] for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])  # noqa: SIM115
    return 1024 * int(rows["Rss:"])


def layers(depth: int = 8, width: int = 256) -> bytes:
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(depth):
        weights.append(numpy_helper.from_array((random.random((width, width)) / width).astype(np.float32), f"w{k}"))
        nodes += [
            helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"a{k}"]),
            helper.make_node("Softmax", [f"a{k}"], [f"x{k + 1}"]),
        ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name in ("x0", f"x{depth}")]
    graph = helper.make_graph(nodes, "layers", infos[:1], infos[1:], weights)
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    return made


def feed(session: ort_lite.InferenceSession, size: int) -> dict[str, Any]:
    return {
        arg.name: np.ones([dim if isinstance(dim, int) else size for dim in arg.shape], KINDS[arg.type])
        for arg in session.get_inputs()
    }


def grown(model: Any, runs: int, shapes: int, threads: int) -> float:
    """Prints resident memory after each fifth; returns the last one's over the first one's."""
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort_lite.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    order = np.random.default_rng(0).permutation(np.arange(runs) % shapes) + 1
    marks = []
    with ThreadPoolExecutor(threads) as pool:
        for part in range(5):
            sizes = order[runs * part // 5 : runs * (part + 1) // 5].tolist()
            list(pool.map(lambda size: session.run(None, feed(session, size)) and None, sizes))
            marks.append(resident())
            held = session.memory()
            scratch = held["scratch"]
            print(
                f"{runs * (part + 1) // 5:6} runs: {marks[-1] / 1e6:8.1f} MB resident; constants {held['constants'] / 1e6:.1f}, "
                f"packed {held['packed_weights'] / 1e6:.1f}, scratch {scratch['held'] / 1e6:.1f} in {scratch['arenas']} arenas, "
                f"{held['plans']} plans {held['plan_bytes'] / 1e6:.1f} MB"
            )
    return marks[-1] / marks[0]


def main() -> None:
    given = sys.argv[1:]
    model = given.pop(0) if given and not given[0].isdecimal() else layers()
    runs, shapes, threads = [*map(int, given), *(10_000, 500, 8)[len(given) :]]
    ratio = grown(model, runs, shapes, threads)
    print(f"after all runs {ratio - 1:+.2%} of what it was after a fifth")
    sys.exit(ratio > 1.02)


if __name__ == "__main__":
    main()
