"""A sketch: a small model with the inputs of its runs, written down in a few words; and the words that draw one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record, field

OPSET = 18
NAMES = "abcdefghijkl"


class Row(Record, eq=False):
    """A node: `outputs` are names, "" among the inputs is one that is left out."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Sketch(Record, eq=False):
    """A model of `rows`. `feeds` are the inputs of one run each, in one session: where a size differs between them, it is open."""

    name: str
    kind: str
    rows: tuple[Row, ...]
    feeds: tuple[Mapping[str, Array], ...]
    constants: Mapping[str, Array]
    outputs: tuple[str, ...]
    opset: int = OPSET

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.op_type for row in self.rows))

    @property
    def size(self) -> tuple[int, int, int]:
        """Nodes, attributes and elements: of two failures the smaller tells more."""
        arrays = [*self.constants.values(), *(array for feed in self.feeds for array in feed.values())]
        return len(self.rows), sum(len(row.attributes) for row in self.rows), sum(array.size for array in arrays)

    @property
    def model(self) -> Any:
        """A ModelProto."""
        from onnx import helper, numpy_helper

        nodes = [
            helper.make_node(row.op_type, row.inputs, row.outputs, name=f"{row.op_type}_{k}", **row.attributes)
            for k, row in enumerate(self.rows)
        ]
        inputs = [self._info(name) for name in self.feeds[0]]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        kept = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(nodes, "sketch", inputs, outputs, kept)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def _info(self, name: str) -> Any:
        """Sizes that change from feed to feed are named after all of theirs: those that change alike are equal."""
        from onnx import helper

        sizes = zip(*(feed[name].shape for feed in self.feeds), strict=True)
        dims = [each[0] if len(set(each)) == 1 else "n" + "_".join(map(str, each)) for each in sizes]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.feeds[0][name].dtype), dims)


def numbers(shape: Sequence[int], seed: object = 0) -> Array:
    """Eighths from -3 to 3: sums of some of them are exact in float32. The same for the same shape and seed."""
    rng = np.random.default_rng(crc32(repr((tuple(shape), seed)).encode()))
    return (rng.integers(-24, 25, tuple(shape)) / 8).astype(np.float32)


def one(
    op_type: str,
    *operands: Any,
    fixed: Iterable[int] = (),
    note: str = "",
    kind: str = "attributes",
    outputs: int = 1,
    opset: int = OPSET,
    **attributes: Any,
) -> Sketch:
    """A node alone. An operand is an array, a shape (numbers of it), or None where it is left out; those at `fixed` are constants."""
    fixed = frozenset(k for k in fixed if operands[k] is not None)
    arrays = [numbers(x, k) if isinstance(x, tuple) else x for k, x in enumerate(operands)]
    names = ["" if x is None else NAMES[k] for k, x in enumerate(arrays)]
    made = tuple(f"y{k}" for k in range(outputs))
    row = Row(op_type, tuple(names), made, attributes)
    feed = {NAMES[k]: x for k, x in enumerate(arrays) if x is not None and k not in fixed}
    kept = {NAMES[k]: arrays[k] for k in sorted(fixed)}
    shown = [("const " * (k in fixed)) + _shown(x) for k, x in enumerate(arrays)]
    words = [f"{key}={_plain(value)}" for key, value in attributes.items()] + [note] * bool(note)
    words += [f"opset {opset}"] * (opset != OPSET)
    name = " ".join([f"{op_type}({', '.join(shown)})", *words])
    return Sketch(name, kind, (row,), (feed,), kept, made, opset)


def runs(sketch: Sketch, *shapes: tuple[int, ...]) -> Sketch:
    """The sketch with runs of these shapes, one after the other, of its first input."""
    ((first, *_), feed) = (tuple(sketch.feeds[0]), sketch.feeds[0])
    feeds = tuple({**feed, first: numbers(shape, k)} for k, shape in enumerate(shapes))
    told = ", ".join("x".join(map(str, shape)) or "0-d" for shape in shapes)
    return sketch.replace(name=f"{sketch.name}, runs of {told}", kind="sizes", feeds=feeds)


def graph(
    name: str,
    text: str,
    feed: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    kind: str = "graphs",
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Sketch:
    """Nodes as text, "p = Conv(x, w); y = Relu(p)"; `attributes` by operator. Shapes stand for random numbers."""
    rows = []
    for statement in text.split(";"):
        result, _, call = statement.strip().partition(" = ")
        op_type, _, rest = call.partition("(")
        inputs = tuple(word.strip() for word in rest.rstrip(")").split(","))
        rows.append(Row(op_type, inputs, tuple(result.split(", ")), (attributes or {}).get(op_type, {})))
    fed, kept = (
        {k: numbers(x, k) if isinstance(x, tuple) else x for k, x in given.items()} for given in (feed, constants or {})
    )
    shown = ", ".join(f"{k} {_shown(x)}" for k, x in fed.items()) + "".join(f", const {k} {_shown(x)}" for k, x in kept.items())
    return Sketch(f"{name}: {text} with {shown}", kind, tuple(rows), (fed,), kept, tuple(outputs))


def _shown(array: Array | None) -> str:
    """As "2x3", "bool 4", "0-d"; of a few whole numbers the numbers."""
    if array is None:
        return "-"
    if array.dtype == np.int64 and array.ndim == 1 and array.size <= 8:
        return str(array.tolist())
    shape = "x".join(map(str, array.shape)) or "0-d"
    return shape if array.dtype == np.float32 else f"{array.dtype} {shape}"


def _plain(value: Any) -> str:
    return str(value).replace(" ", "")


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def attributes_of(node: Any) -> dict[str, Any]:
    """Of a NodeProto."""
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def kinds_of(op_type: str, version: int) -> dict[str, tuple[str, Any]]:
    """Attribute -> its kind ("INT", "FLOATS", ...) and default, by ONNX's schema of the operator; the default is None without one."""
    from onnx import defs, helper

    found = {}
    for name, attribute in defs.get_schema(op_type, version, "").attributes.items():
        default = attribute.default_value
        found[name] = str(attribute.type).rpartition(".")[2], helper.get_attribute_value(default) if default.name else None
    return found
