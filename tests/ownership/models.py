"""Models whose tensors are in every place that a tensor can be in."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ort_lite.dtypes import Array
from ort_lite.graph import Model
from ort_lite.load.spans import ByteSpan, span_of
from ort_lite.load.tensor_slot import TensorSlot
from ort_lite.load.tensors import model_tensors

W = np.arange(1024, dtype=np.float32)  # 4096 bytes
SMALL = np.array([1.0, 2.0], np.float32)


def model(*initializers: TensorProto, node: onnx.NodeProto | None = None) -> onnx.ModelProto:
    """y = x + w, w broadcast; further initialisers are read by nobody."""
    node = node or helper.make_node("Add", ["x", "w"], ["y"], name="add")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", None]) for name in "xy")
    graph = helper.make_graph([node], "main", [x], [y], initializer=list(initializers))
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def raw(array: Array, name: str) -> TensorProto:
    return numpy_helper.from_array(np.array(array, order="C"), name)


def inline() -> bytes:
    """`w` has 4096 bytes, `s` has 8."""
    return bytes(model(raw(W, "w"), raw(SMALL, "s")).SerializeToString())


def put_inline(folder: Path) -> Path:
    path = folder / "inline.onnx"
    path.write_bytes(inline())
    return path


def put_external(folder: Path, files: dict[str, list[tuple[str, Array]]] | None = None) -> Path:
    """A model beside files of external data that hold the tensors named, by default `w` and `v` in the file `weights`."""
    protos = []
    folder.mkdir(parents=True, exist_ok=True)
    for location, members in (files or {"weights": [("w", W), ("v", -W)]}).items():
        data = b""
        for name, array in members:
            proto = raw(array, name)
            proto.ClearField("raw_data")
            proto.data_location = TensorProto.EXTERNAL
            for key, value in (("location", location), ("offset", len(data)), ("length", array.nbytes)):
                proto.external_data.add(key=key, value=str(value))
            protos.append(proto)
            data += array.tobytes()
        target = folder / location
        if target.parent.is_dir():
            target.write_bytes(data)
    path = folder / "model.onnx"
    path.write_bytes(model(*protos).SerializeToString())
    return path


def _identity(name: str, x: str, y: str, value: Array) -> onnx.GraphProto:
    """One Identity of an initialiser."""
    result = helper.make_tensor_value_info(y, 1, [1024])
    return helper.make_graph([helper.make_node("Identity", [x], [y])], name, [], [result], initializer=[raw(value, x)])


def everywhere() -> onnx.ModelProto:
    """Tensors of 4096 bytes: initialiser, attribute, lists of tensors and graphs, bodies, a function's default; one `float_data`."""
    body = _identity("body", "inner", "t", W + 1)
    bodies = [_identity(name, name, f"{name}_out", W + k) for k, name in ((2, "first"), (3, "second"))]
    nodes = [
        helper.make_node("If", ["flag"], ["a"], name="if", then_branch=body, else_branch=body),
        helper.make_node("Constant", [], ["b"], name="constant", value=raw(W + 4, "")),
        helper.make_node("Many", [], ["c"], name="many", domain="my", tensors=[raw(W + 5, ""), raw(W + 6, "")], graphs=bodies),
        helper.make_node("Sum", ["a", "b", "c", "w", "typed"], ["y"], name="sum"),
    ]
    typed = TensorProto(name="typed", data_type=1, dims=[1024], float_data=(W + 7).tolist())
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", 1, [1024])],
        initializer=[raw(W, "w"), raw(SMALL, "small"), typed],
    )
    function = helper.make_function(
        "my",
        "Scaled",
        ["p"],
        ["q"],
        [helper.make_node("Identity", ["p"], ["q"])],
        [helper.make_opsetid("", 17)],
        attribute_protos=[helper.make_attribute("scale", raw(W + 8, ""))],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports, functions=[function])


def slot(loaded: Model, name: str) -> TensorSlot:
    return next(found for found in model_tensors(loaded) if found.name == name)


def constant(loaded: Model, name: str = "w") -> Array:
    array = loaded.graph.initializers[name].constant
    assert array is not None
    return array


def span(loaded: Model, name: str = "w") -> ByteSpan:
    found = span_of(constant(loaded, name))
    assert found is not None
    return found


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
