"""onnxruntime as an oracle: what it makes of one node."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper

import ort_lite
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
    constants: Sequence[int] = (),
    api: Any = onnxruntime,
) -> list[Any]:
    """Return its outputs, of the element types `outputs` ("" for one that is left out), without optimisations.

    constants: positions of inputs that are initialisers. api: the runtime, onnxruntime or ort_lite.
    """
    names = ["" if array is None else f"in{k}" for k, array in enumerate(inputs)]
    given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    initializers = [numpy_helper.from_array(given.pop(names[k]), names[k]) for k in constants]
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
    model = helper.make_model(
        helper.make_graph([node], "g", infos, results, initializers), opset_imports=imports, ir_version=10
    )
    options = api.SessionOptions()
    options.graph_optimization_level = api.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = api.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


def both(nodes: Sequence[str], feeds: Mapping[str, Array], opset: int) -> tuple[list[Any], list[Any]]:
    """The outputs y0, y1, ... of these nodes, in ONNX's text format: those of ort_lite and those of onnxruntime."""
    inputs = ", ".join(f"{dtype_text(array)} {name}" for name, array in feeds.items())
    outputs = ", ".join(f"float[] y{k}" for k in range(len(nodes)))
    body = " ".join(nodes)
    model = text_model(body, inputs, outputs, opset)
    apis: list[Any] = [ort_lite, onnxruntime]
    results = []
    for api in apis:
        session = api.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        results.append(session.run(None, dict(feeds)))
    return results[0], results[1]


def dtype_text(array: Array) -> str:
    """The array's type in ONNX's text format, as in float[2, 3]."""
    return f"{ {'float32': 'float', 'int64': 'int64'}[array.dtype.name] }{list(array.shape)}"


def text_model(body: str, inputs: str, outputs: str, opset: int) -> onnx.ModelProto:
    """A model of nodes, inputs and outputs in ONNX's text format."""
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}')
