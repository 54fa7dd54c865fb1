"""Generate the example models: `python -m ort_lite.compat.datasets.make FOLDER`."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.load.proto import pb, serialize

FLOAT, INT64 = pb.TensorProto.FLOAT, pb.TensorProto.INT64


def sigmoid() -> pb.ModelProto:
    """Return the model y = Sigmoid(x) for x of shape (3, 4, 5)."""
    model = _model("sigmoid", "", 9)
    _tensor(model.graph.input.add(), "x", FLOAT, (3, 4, 5))
    _tensor(model.graph.output.add(), "y", FLOAT, (3, 4, 5))
    _node(model, "Sigmoid", ["x"], ["y"])
    return model


def mul_1() -> pb.ModelProto:
    """Return the model Y = X * W for X of shape (3, 2), with W from 1 to 6."""
    model = _model("mul", "", 7)
    _tensor(model.graph.input.add(), "X", FLOAT, (3, 2))
    _tensor(model.graph.output.add(), "Y", FLOAT, (3, 2))
    weights = model.graph.initializer.add()
    weights.name, weights.data_type = "W", FLOAT
    weights.dims.extend([3, 2])
    weights.float_data.extend(range(1, 7))
    _node(model, "Mul", ["X", "W"], ["Y"])
    return model


def logreg_iris() -> pb.ModelProto:
    """Return a classifier of irises: (3, 2) lengths and widths give a label and a map of probabilities per row.

    The coefficients are those that onnxruntime uses of its example of this name, which states twelve of them for two features.
    """
    model = _model("logreg_iris", "ai.onnx.ml", 1)
    _tensor(model.graph.input.add(), "float_input", FLOAT, (3, 2))
    _tensor(model.graph.output.add(), "label", INT64, (3,))
    maps = model.graph.output.add()
    maps.name = "probabilities"
    entry = maps.type.sequence_type.elem_type.map_type
    entry.key_type, entry.value_type.tensor_type.elem_type = INT64, FLOAT
    entry.value_type.tensor_type.shape.SetInParent()
    classifier = {
        "classlabels_ints": [0, 1, 2],
        "post_transform": b"LOGISTIC",
        "multi_class": 0,
        "coefficients": [
            0.38574114441871643,
            1.3805406093597412,
            -2.1314499378204346,
            -0.9928048253059387,
            0.6427745223045349,
            -1.748938798904419,
        ],
        "intercepts": [0.2496291995048523, 0.582027792930603, -0.9416166543960571],
    }
    _node(model, "LinearClassifier", ["float_input"], ["label", "scores"], classifier)
    _node(model, "Normalizer", ["scores"], ["normalized"], {"norm": b"L1"})
    _node(model, "ZipMap", ["normalized"], ["probabilities"], {"classlabels_int64s": [0, 1, 2]})
    return model


EXAMPLES = {"logreg_iris.onnx": logreg_iris, "mul_1.onnx": mul_1, "sigmoid.onnx": sigmoid}


def _model(name: str, domain: str, version: int) -> pb.ModelProto:
    model = pb.ModelProto()
    model.ir_version, model.producer_name, model.graph.name = 4, "ort-lite", name
    imported = model.opset_import.add()
    imported.domain, imported.version = domain, version
    return model


def _tensor(place: pb.ValueInfoProto, name: str, dtype: int, shape: Sequence[int]) -> None:
    place.name, place.type.tensor_type.elem_type = name, dtype
    for dim in shape:
        place.type.tensor_type.shape.dim.add().dim_value = dim


def _node(
    model: pb.ModelProto,
    op_type: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any] | None = None,
) -> None:
    node = model.graph.node.add()
    node.op_type, node.domain = op_type, model.opset_import[0].domain
    node.input.extend(inputs)
    node.output.extend(outputs)
    for name, value in (attributes or {}).items():
        attribute = node.attribute.add()
        attribute.name = name
        if isinstance(value, int):
            attribute.i, attribute.type = value, pb.AttributeProto.INT
        elif isinstance(value, bytes):
            attribute.s, attribute.type = value, pb.AttributeProto.STRING
        elif isinstance(value[0], int):
            attribute.ints.extend(value)
            attribute.type = pb.AttributeProto.INTS
        else:
            attribute.floats.extend(value)
            attribute.type = pb.AttributeProto.FLOATS


def main(folder: str) -> None:
    """Write all examples into a folder."""
    for name, make in EXAMPLES.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(serialize(make()))


if __name__ == "__main__":
    main(sys.argv[1])
