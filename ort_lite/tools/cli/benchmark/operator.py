"""A model with one node, for `--operator`."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, Array, is_dtype, to_numpy
from ort_lite.errors import InvalidArgument, hint
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType
from ort_lite.inference.annotate import annotate
from ort_lite.load.proto import serialize
from ort_lite.load.save import to_proto
from ort_lite.plugins import plugins

OPSET = 23
"""Old enough for rivals, new enough for Attention and RMSNormalization."""


def operator_model(
    operator: str,
    shapes: Sequence[tuple[int, ...] | None],
    dtypes: Sequence[str] = ("float32",),
    attributes: Mapping[str, Any] | None = None,
    constants: Collection[int] | Mapping[int, Array] = (),
    outputs: int = 1,
) -> bytes:
    """Return the bytes of a model file with one node. "com.microsoft.Gelu" is Gelu of another domain.

    A shape of None leaves an optional input out. The other inputs, i0, i1, ..., are fed, except those in `constants`: a mapping
    gives their values, otherwise they are random initializers. One element type applies to all inputs. The node has `outputs`
    outputs, of which the model returns the first. Raises InvalidArgument and what shape inference raises.
    """
    types = list(dtypes) * len(shapes) if len(dtypes) == 1 else list(dtypes)
    _check(shapes, types, constants)
    domain, _, name = operator.rpartition(".")
    rng = np.random.default_rng(0)
    values = [
        None if shape is None else Value(f"i{k}", TensorType(dtype, shape))
        for k, (dtype, shape) in enumerate(zip(types, shapes, strict=True))
    ]
    results = [Value("y"), *(Value(f"y{k}") for k in range(1, outputs))]
    graph = Graph("operator", [value for k, value in enumerate(values) if value and k not in constants], results[:1])
    for k in constants:
        value, shape = values[k], shapes[k]
        if value is None or shape is None:
            raise InvalidArgument(f"--constant {k}: the input is left out")
        value.constant = constants[k] if isinstance(constants, Mapping) else _weights(rng, types[k], shape)
        graph.add_initializer(value)
    graph.append(Node(name, values, results, attributes or {}, domain=domain, version=1 if domain else OPSET, name=name))
    annotate(graph, plugins.shape_rules())  # files say the type of an output
    imports = {"": OPSET, domain: 1} if domain else {"": OPSET}
    data: bytes = serialize(to_proto(Model(graph, imports)))
    return data


def shape_of(text: str) -> tuple[int, ...]:
    """Parse a shape: (512, 64) from "512x64"; an empty text is a scalar's."""
    sizes = text.split("x") if text else []
    if not all(size.isdecimal() for size in sizes):
        raise InvalidArgument(f"--shape {text}: expected sizes with x between them, such as 512x512")
    return tuple(map(int, sizes))


def attribute_of(text: str) -> tuple[str, Any]:
    """Parse "axis=1", "pads=1,1,1,1" or "mode=edge": numbers and lists as in JSON, anything else as text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidArgument(f"--attribute {text}: expected NAME=VALUE")
    for form in (value, f"[{value}]"):
        try:
            return name, json.loads(form)
        except ValueError:
            pass
    return name, value


def _check(shapes: Sequence[tuple[int, ...] | None], dtypes: Sequence[str], constants: Collection[int]) -> None:
    if len(dtypes) != len(shapes):
        raise InvalidArgument(f"--dtype: came {len(dtypes)} times, expected once, or for each of the {len(shapes)} shapes")
    for dtype in dtypes:
        if not is_dtype(dtype) or dtype == "string":
            raise InvalidArgument(f"--dtype {dtype}: no element type of numbers{hint(dtype, sorted(FLOATS))}")
    for k in constants:
        if not 0 <= k < len(shapes):
            raise InvalidArgument(f"--constant {k}: expected the place of an input, 0 to {len(shapes) - 1}")


def _weights(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return random weights. Floats are small enough that sums of products and recurrent states stay bounded; integers are 0 or 1."""
    if dtype not in FLOATS:
        return rng.integers(0, 2, shape).astype(to_numpy(dtype))
    return np.asarray(rng.standard_normal(shape) / max((1, *shape)) ** 0.5).astype(to_numpy(dtype))
