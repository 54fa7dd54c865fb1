"""onnxruntime as an oracle: what it makes of one node."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from ort_lite.dtypes import Array, from_numpy, to_onnx


def ort_op(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    *,
    opset: int,
    domain: str = "",
    outputs: Sequence[str] = ("float32",),
    threads: int = 1,
) -> list[Any]:
    """Its outputs, of the element types `outputs` ("" for one that is left out), without optimisations."""
    names = ["" if array is None else f"in{k}" for k, array in enumerate(inputs)]
    given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    infos = [
        helper.make_tensor_value_info(name, to_onnx(from_numpy(array.dtype)), list(array.shape))
        for name, array in given.items()
    ]
    results = [helper.make_tensor_value_info(f"out{k}", to_onnx(dtype), None) for k, dtype in enumerate(outputs) if dtype]
    plain = {key: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for key, v in attributes.items()}
    node = helper.make_node(
        op_type, names, [f"out{k}" if dtype else "" for k, dtype in enumerate(outputs)], domain=domain, **plain
    )
    imports = [helper.make_opsetid(domain, opset), *([helper.make_opsetid("", 21)] if domain else [])]
    model = helper.make_model(helper.make_graph([node], "g", infos, results), opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, given))
