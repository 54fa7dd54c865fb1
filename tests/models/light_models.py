"""The light models that the onnx package carries: real architectures, whose weights ConstantOfShape nodes make, all 0.02.

With equal weights each channel is the same, and a kernel that mixes up its weights' layout passes unseen. So they get random
ones here.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ort_lite.dtypes import Array

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_NAMES = "bvlc_alexnet densenet121 inception_v1 inception_v2 resnet50 shufflenet squeezenet vgg19 zfnet512"
NAMES = _NAMES.split()
WIDE, NARROW = 4096, 64
"""Units of the fully connected layers of alexnet, vgg19 and zfnet512, and what is left of them: 80 MB instead of 575."""


def randomised(name: str) -> bytes:
    """The model with seeded random weights, and with what goes into the last Softmax as a second output.

    Weights of Conv and Gemm keep the magnitude of what they are multiplied with: standard deviation sqrt(gain / fan in).
    """
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(0)
    sizes = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.data_type == TensorProto.INT64
    }
    readers = {name: (node.op_type, k) for node in reversed(graph.node) for k, name in enumerate(node.input)}
    gain = 1 if any(node.op_type == "BatchNormalization" for node in graph.node) else 2
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = [NARROW if size == WIDE else int(size) for size in sizes[node.input[0]]]
            weight = _weight(rng, shape, *readers.get(node.output[0], ("", 0)), gain)
            graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
        else:
            kept.append(node)
    _keep(model, kept)
    scores = [node.input[0] for node in kept if node.op_type == "Softmax" and node.output[0] == graph.output[0].name]
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in scores)
    return bytes(model.SerializeToString())


def _weight(rng: np.random.Generator, shape: list[int], op_type: str, position: int, gain: int) -> Array:
    if len(shape) > 1:
        deviation = np.sqrt(gain / np.prod(shape[1:]))
    elif op_type in ("Conv", "Gemm") or (op_type == "BatchNormalization" and position in (2, 3)):  # a bias, or a mean
        deviation = 0.1
    else:  # a scale or a variance
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)


def _keep(model: ModelProto, nodes: list[NodeProto]) -> None:
    """The graph keeps these nodes, and of its initialisers and inputs those that they read."""
    graph = model.graph
    read = {name for node in nodes for name in node.input}
    weights = [tensor for tensor in graph.initializer if tensor.name in read]
    inputs = [value for value in graph.input if value.name in read]
    for field, items in ((graph.node, nodes), (graph.initializer, weights), (graph.input, inputs)):
        del field[:]
        field.extend(items)


def image() -> Array:
    """(1, 3, 224, 224): colours that change slowly, with noise."""
    y, x = np.mgrid[0:224, 0:224] / 224
    waves = np.stack([np.sin(6 * x + k) * np.cos(4 * y - k) for k in range(3)])
    noise = np.random.default_rng(1).standard_normal(waves.shape)
    return (waves + 0.3 * noise).astype(np.float32)[None]
