"""Models of one node from a line of text, and what to feed them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

_SPLIT = re.compile(r",\s*(?![^\[{]*[\]}])")  # commas outside of brackets


def node_case(line: str) -> tuple[onnx.ModelProto, list[str]]:
    """The model of a line as in `nodes.py`, and the words that its refusal must have."""
    node, inputs, words = (part.strip() for part in line.split(" | ")) if line.count(" | ") == 2 else _spread(line)
    return node_model(node, inputs), [word.strip().replace("\0", ",") for word in words.replace("\\,", "\0").split(",")]


def _spread(line: str) -> tuple[str, str, str]:
    node, _, words = line.partition(" | | ")
    return node, "", words


def node_model(node: str, inputs: str) -> onnx.ModelProto:
    """A model of one node: `[@opset] Operator <attributes>`, `float[2,3], int64[1]={5}, -`."""
    opset = 21
    if node.startswith("@"):
        given, _, node = node.partition(" ")
        opset = int(given[1:])
    operator, _, attributes = node.partition(" ")
    outputs = "y, y2" if operator in ("TopK", "StringSplit") else "y"
    fed: list[str] = []
    constants: list[str] = []
    names = []
    for name, one in zip("abcdefgh", _SPLIT.split(inputs) if inputs else [], strict=False):
        type_, _, value = one.partition("=")
        if one == "-":
            names.append("")
            continue
        names.append(name)
        (constants if value else fed).append(f"{type_} {name}" + (f" = {value}" if value else ""))
    signature = f"({', '.join(fed)}) => (y) {'<' + ', '.join(constants) + '>' if constants else ''}"
    arguments = ", ".join(name or '""' for name in names)
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> g {signature} {{ [n] {outputs} = {operator} {attributes} ({arguments}) }}'
    return onnx.parser.parse_model(text)


def zeros(model: onnx.ModelProto) -> Mapping[str, Any]:
    """A feed of ones and zeros of the declared types and sizes; 2 stands for a size that is open."""
    feed = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = [dim.dim_value or (0 if dim.HasField("dim_value") else 2) for dim in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feed[info.name] = np.full(shape, "" if dtype.kind == "O" else 0, dtype)
    return feed


def operator_model(
    op_type: str,
    inputs: Sequence[np.ndarray[Any, Any] | None],
    *,
    domain: str = "",
    opset: int = 0,
    outputs: int = 1,
    fixed: bool = False,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of the node 'n' with inputs in0, in1, ... like these arrays and outputs out0, out1, ...

    Sizes are open unless `fixed`. Inputs at the positions `constants` are initializers.
    """
    names = ["" if array is None else f"in{k}" for k, array in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [size if fixed else f"{name}_{axis}" for axis, size in enumerate(array.shape)],
        )
        for k, (name, array) in enumerate(zip(names, inputs, strict=True))
        if array is not None and k not in constants
    ]
    held = [numpy_helper.from_array(array, names[k]) for k in constants if (array := inputs[k]) is not None]
    plain = {name: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for name, v in attributes.items()}
    results = [f"out{k}" for k in range(outputs)]
    node = helper.make_node(op_type, names, results, "n", domain=domain, **plain)
    imports = [helper.make_opsetid("", 21 if domain or not opset else opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, opset or 1))
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in results], held)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
