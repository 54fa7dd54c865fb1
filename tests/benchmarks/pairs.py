"""Runs of one model on onnxruntime and here, in turn: what the benchmarks of single operators share."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import ort_lite
from ort_lite.tools.cli.benchmark.interleaved_runs import quietest

Array = npt.NDArray[Any]
SECONDS = 1.5
"""How long a pair is measured."""


def model_of(nodes: Sequence[tuple[str, dict[str, Any], Sequence[Array]]], x: Array) -> bytes:
    """A chain of nodes: each takes the result of the one before and constants of its own."""
    made, constants = [], []
    for k, (op_type, attributes, weights) in enumerate(nodes):
        names = [f"w{k}_{i}" for i in range(len(weights))]
        constants += [numpy_helper.from_array(w, name) for w, name in zip(weights, names, strict=True)]
        made.append(helper.make_node(op_type, [f"v{k}", *names], [f"v{k + 1}"], **attributes))
    inputs = [helper.make_tensor_value_info("v0", TensorProto.FLOAT, x.shape)]
    outputs = [helper.make_tensor_value_info(f"v{len(nodes)}", TensorProto.FLOAT, None)]
    graph = helper.make_graph(made, "chain", inputs, outputs, constants)
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    return model


def compare(label: str, model: bytes, x: Array, gigaflops: float, threads: int = 1, target: str = "host") -> float:
    """Prints times and returns how many times faster than onnxruntime this is; results must agree. `target` is ours alone."""
    theirs_options, ours_options = onnxruntime.SessionOptions(), ort_lite.SessionOptions()
    for options in (theirs_options, ours_options):
        options.intra_op_num_threads = threads
    theirs = onnxruntime.InferenceSession(model, theirs_options, providers=["CPUExecutionProvider"])
    ours = ort_lite.InferenceSession(model, ours_options, providers=[("CPUExecutionProvider", {"target": target})])
    feed = {"v0": x}
    want, got = theirs.run(None, feed)[0], ours.run(None, feed)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * np.abs(want).max())
    runs = {"theirs": partial(theirs.run, None, feed), "ours": partial(ours.run, None, feed)}
    a, b = quietest(runs, SECONDS).values()
    print(
        f"{label:34} onnxruntime {a * 1e6:9.1f} us {gigaflops / a:6.1f} GF/s   ort_lite {b * 1e6:9.1f} us {gigaflops / b:6.1f} GF/s"
        f"   ratio {a / b:.2f}",
        flush=True,
    )
    return a / b
