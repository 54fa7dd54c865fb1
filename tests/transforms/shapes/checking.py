"""One node under symbolic shape inference, evaluated for real arrays and compared with what the node really gives.

Each check is made twice: with every dim of the inputs a symbol and small integer inputs given as numbers, then with the
elements of the integer inputs symbols as well.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnxruntime
from onnx.reference import ReferenceEvaluator

from ort_lite.dtypes import Array, from_numpy
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import CONTENTS_LIMIT, Inference, Info, NumbersUnknown, ShapeRules
from ort_lite.shapes import Dim, substitute, symbol
from ort_lite_transforms.shapes import FAMILIES

ALL = ShapeRules(FAMILIES.values())
NEWEST = {"": 25, "ai.onnx.ml": 5, "com.microsoft": 1, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}


def tensor(dtype: str, *dims: Dim | str, contents: Sequence[Dim] | None = None) -> Info:
    """What is known of a tensor; dims by name are symbols."""
    shape = tuple(symbol(dim) if isinstance(dim, str) else dim for dim in dims)
    return Info(TensorType(dtype, shape), None if contents is None else tuple(contents))


def numbers(*values: int, dtype: str = "int64") -> Info:
    """A vector whose elements are known."""
    return tensor(dtype, len(values), contents=values)


def scalar(value: Dim, dtype: str = "int64") -> Info:
    return tensor(dtype, contents=[value])


def unknown(dtype: str = "int64", *dims: Dim | str) -> Info:
    """An integer operand of which only the shape is known."""
    return tensor(dtype, *dims)


def constant(array: Array) -> Info:
    return Info(TensorType(from_numpy(array.dtype), array.shape), None, array)


def infer(
    op_type: str,
    *inputs: Info | None,
    outputs: int = 1,
    domain: str = "",
    version: int | None = None,
    strict: bool = False,
    **attributes: Any,
) -> list[Info]:
    """What the rules say of the outputs of one node."""
    given = {f"x{k}": Value(f"x{k}") for k, info in enumerate(inputs) if info is not None}
    infos = {given[f"x{k}"]: info for k, info in enumerate(inputs) if info is not None}
    made = [Value(f"y{k}") for k in range(outputs)]
    names = [given.get(f"x{k}") for k in range(len(inputs))]
    node = Node(op_type, names, made, attributes, domain=domain, version=version or NEWEST[domain], name="node")
    return Inference(ALL, infos, strict=strict).node(node)


def text(info: Info) -> str:
    """`float32[N, 3]`, with the contents behind it where they are known."""
    return f"{info.type}" + (f" = {list(info.contents)}" if info.contents is not None else "")


def check(
    op_type: str,
    *arrays: Array | None,
    outputs: int = 1,
    domain: str = "",
    version: int | None = None,
    expected: Sequence[Array] | None = None,
    data_dependent: bool = False,
    **attributes: Any,
) -> None:
    """Type, shape and, if they are known, contents of every output, against `expected` or what ONNX's reference gives.

    Dims that only the run tells are allowed when the operator is `data_dependent`.
    """
    version = version or NEWEST[domain]
    if expected is None:
        expected = run(op_type, arrays, outputs, domain, version, attributes)
    for symbols_for_contents in (False, True):
        infos: list[Info | None] = []
        values: dict[str, int] = {}
        for k, array in enumerate(arrays):
            info, added = (None, {}) if array is None else symbolic(f"x{k}", array, symbols_for_contents)
            infos.append(info)
            values |= added
        try:
            found = infer(op_type, *infos, outputs=outputs, domain=domain, version=version, strict=True, **attributes)
        except NumbersUnknown:
            assert symbols_for_contents
            continue
        for info, array in zip(found, expected, strict=True):
            agree(info, array, values, data_dependent, f"{op_type}-{version} {attributes}, inputs {list(map(str_of, arrays))}")


def str_of(array: Array | None) -> str:
    if array is None:
        return "(left out)"
    return f"{array.dtype}{list(array.shape)}" + (f" = {array.tolist()}" if array.size <= 8 else "")


def symbolic(name: str, array: Array, symbols_for_contents: bool) -> tuple[Info, dict[str, int]]:
    """An Info whose dims are symbols, and their values. Integer vectors and scalars keep their shape and have contents."""
    dtype = from_numpy(array.dtype)
    if array.dtype.kind in "iub" and array.ndim <= 1 and array.size <= CONTENTS_LIMIT:
        elements = [int(element) for element in array.reshape(-1)]
        if not symbols_for_contents:
            return Info(TensorType(dtype, array.shape), tuple(elements)), {}
        contents = tuple(symbol(f"{name}[{i}]", signed=True) for i in range(array.size))
        return Info(TensorType(dtype, array.shape), contents), {f"{name}[{i}]": e for i, e in enumerate(elements)}
    shape = tuple(symbol(f"{name}.{axis}") for axis in range(array.ndim))
    small = array if array.size <= 8 else None
    return Info(TensorType(dtype, shape), None, small), {f"{name}.{axis}": dim for axis, dim in enumerate(array.shape)}


def agree(info: Info, array: Array, values: dict[str, int], data_dependent: bool, what: str) -> None:
    """Raises AssertionError where the evaluated Info is not the type, shape and contents of the array."""
    assert info.dtype == from_numpy(array.dtype), f"{what}: inferred {info.type}, got {array.dtype}"
    assert info.shape is not None, f"{what}: no rank, got {array.shape}"
    dims = [substitute(dim, values) for dim in info.shape]
    assert len(dims) == array.ndim, f"{what}: inferred {info.type}, got {array.shape}"
    for dim, real in zip(dims, array.shape, strict=True):
        open_ = data_dependent and not isinstance(dim, int)
        assert open_ or dim == real, f"{what}: inferred {info.type}, that is {dims}, got {array.shape}"
    if info.contents is not None:
        found = [substitute(element, values) for element in info.contents]
        real = [int(element) for element in array.reshape(-1)]
        assert found == real, f"{what}: inferred contents {list(info.contents)}, that is {found}, got {real}"


def run(
    op_type: str, arrays: Sequence[Array | None], outputs: int, domain: str, version: int, attributes: dict[str, Any]
) -> list[Array]:
    """The outputs of ONNX's reference implementation; of onnxruntime for its own domain."""
    model = one_node(op_type, arrays, outputs, domain, version, attributes)
    feed = {f"x{k}": array for k, array in enumerate(arrays) if array is not None}
    if domain == "com.microsoft":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(output) for output in session.run(None, feed)]
    return [np.asarray(output) for output in ReferenceEvaluator(model).run(None, feed)]


def one_node(
    op_type: str, arrays: Sequence[Array | None], outputs: int, domain: str, version: int, attributes: dict[str, Any]
) -> onnx.ModelProto:
    names = ["" if array is None else f"x{k}" for k, array in enumerate(arrays)]
    node = onnx.helper.make_node(op_type, names, [f"y{k}" for k in range(outputs)], domain=domain, **attributes)
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in zip(names, arrays, strict=True)
        if array is not None
    ]
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in node.output])
    imports = [onnx.helper.make_opsetid("", version if domain == "" else 21)]
    if domain:
        imports.append(onnx.helper.make_opsetid(domain, version))
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def floats(*shape: int) -> Array:
    """An array of this shape; what it holds does not matter."""
    return np.linspace(-1, 1, num=int(np.prod(shape)), dtype=np.float32).reshape(shape)


def integers(*values: int) -> Array:
    return np.array(values, np.int64)
