"""Random ONNX models of all kinds of values: tensors of six element types, sequences, optionals, nested If, Loop and Scan.

Every tensor is of shape (3,) or a scalar when the model runs, so that any two of a type go together; what is known before differs.
"""

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

FLOATS = ("float32", "float64", "float16")
DTYPES = (*FLOATS, "int64", "bool", "string")
CODES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}
NUMBERS = ("Abs", "Identity", "Neg")
UNARY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(FLOATS, (*NUMBERS, "Relu", "Sigmoid", "Softmax")),
    "int64": NUMBERS,
    "bool": ("Identity", "Not"),
    "string": ("Identity",),
}
BINARY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*FLOATS, "int64"), ("Add", "Max", "Mul", "Sub")),
    "bool": ("And", "Or", "Xor"),
    "string": ("StringConcat",),
}
OPSET = 21


class Kind(NamedTuple):
    """What a value is: "tensor", "scalar", "sequence" of tensors, or "optional": a tensor, or nothing."""

    form: str
    dtype: str


FLAG, COUNT = Kind("scalar", "bool"), Kind("scalar", "int64")


class Level:
    """One graph while it is drawn; what is known includes what the graphs around it have so far."""

    def __init__(self, prefix: str, known: list[tuple[str, Kind]]) -> None:
        self.prefix, self.known = prefix, list(known)
        self.outer = len(known)
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def own(self) -> list[tuple[str, Kind]]:
        return self.known[self.outer :]


def mixed_model(seed: int, size: int, depth: int = 2, without: Collection[str] = ()) -> ModelProto:
    """About `size` nodes at its own level, bodies `depth` levels deep; no element type of `without`.

    Half of the models do not say how long their inputs are.
    """
    return _Maker(seed, without).model(size, depth)


def feeds(model: ModelProto, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {value.name: _feed(value, rng) for value in model.graph.input}


def _feed(value: ValueInfoProto, rng: np.random.Generator) -> Any:
    form = value.type.WhichOneof("value")
    if form == "sequence_type":
        return [_array(value.type.sequence_type.elem_type.tensor_type.elem_type, (3,), rng) for _ in range(2)]
    if form == "optional_type":
        dtype = value.type.optional_type.elem_type.tensor_type.elem_type
        return _array(dtype, (3,), rng) if rng.random() < 0.5 else None
    tensor = value.type.tensor_type
    return _array(tensor.elem_type, (3,) if tensor.shape.dim else (), rng)


def _array(code: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    dtype = next(name for name, known in CODES.items() if known == code)
    if dtype == "string":
        return np.array(rng.choice(["a", "bc", "é", ""], shape), object)
    if dtype == "bool":
        return np.array(rng.random(shape) < 0.5)
    return np.array(rng.integers(1, 4, shape)) if dtype == "int64" else np.array(rng.standard_normal(shape)).astype(dtype)


class _Maker:
    def __init__(self, seed: int, without: Collection[str]) -> None:
        self.random = random.Random(seed)
        self.array = np.random.default_rng(seed)
        self.dtypes = (
            "float32",
            *self.random.sample([dtype for dtype in DTYPES[1:] if dtype not in without], self.random.randint(1, 3)),
        )
        self.length: int | str = self.random.choice((3, "N"))
        self.count = 0
        self.calls = False
        self.steps: Mapping[Callable[[Level, int], None], float] = {
            self._unary: 6,
            self._binary: 8,
            self._cast: 2,
            self._compare: 2,
            self._where: 1,
            self._split: 1,
            self._call: 0.5,
            self._sequence: 2,
            self._optional: 1,
            self._swish: 0.5,
            self._if: 1,
            self._loop: 1,
            self._scan: 0.5,
        }

    def model(self, size: int, depth: int) -> ModelProto:
        kinds = [Kind("tensor", dtype) for dtype in self.dtypes] * 2
        kinds += [
            Kind(form, self.random.choice(self.dtypes)) for form in ("sequence", "optional") if self.random.random() < 0.3
        ]
        inputs = [(f"x{k}", kind) for k, kind in enumerate((*kinds, FLAG, COUNT))]
        level = Level("n", inputs)
        level.outer = 0
        self._fill(level, size, depth)
        own = {name: kind for node in level.nodes for name, kind in level.known if name in node.output}
        read = {name for node in level.nodes for name in _reads(node)}
        chosen = {name: kind for name, kind in own.items() if name not in read or self.random.random() < 0.1}
        chosen.update(inputs[:1] if self.random.random() < 0.1 else [])
        outputs = [_info(name, kind, None) for name, kind in chosen.items()]
        given = [_info(name, kind, self.length) for name, kind in inputs]
        graph = helper.make_graph(level.nodes, "main", given, outputs, level.constants)
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
        functions = [_mul_sub()] if self.calls else []
        return helper.make_model(graph, opset_imports=versions[: 1 + self.calls], functions=functions, ir_version=10)

    # A graph

    def _fill(self, level: Level, size: int, depth: int) -> None:
        while len(level.nodes) < size:
            known = [step for step in self.steps if depth or step not in (self._if, self._loop, self._scan)]
            self.random.choices(known, [self.steps[step] for step in known])[0](level, depth)

    def _name(self, level: Level) -> str:
        self.count += 1
        return f"{level.prefix}{self.count}"

    def _add(self, level: Level, op_type: str, inputs: list[str], *kinds: Kind, **attributes: Any) -> list[str]:
        """A node; of its outputs those whose kind has a form are known from now on."""
        name = self._name(level)
        outputs = [f"{name}_{k}" for k in range(len(kinds))]
        level.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        level.known.extend((output, kind) for output, kind in zip(outputs, kinds, strict=True) if kind.form)
        return outputs

    def _one(self, level: Level, op_type: str, inputs: list[str], kind: Kind, **attributes: Any) -> str:
        return self._add(level, op_type, inputs, kind, **attributes)[0]

    def _constant(self, level: Level, array: Any) -> str:
        name = f"{self._name(level)}_c"
        level.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _dtype(self) -> str:
        return self.random.choice(self.dtypes)

    def _pick(self, level: Level, kind: Kind) -> str:
        """A value of the kind, near mostly; a constant where there is none."""
        found = [name for name, known in level.known if known == kind]
        if kind.form == "sequence" and not found:
            elements = [self._tensor(level, kind.dtype) for _ in range(self.random.randint(1, 3))]
            return self._one(level, "SequenceConstruct", elements, kind)
        if kind.form in ("tensor", "scalar") and (not found or self.random.random() < 0.1):
            return self._constant(level, _array(CODES[kind.dtype], (3,) if kind.form == "tensor" else (), self.array))
        if self.random.random() < 0.15:
            return self.random.choice(found)
        return found[-min(len(found), 1 + int(self.random.expovariate(1 / 4)))]

    def _tensor(self, level: Level, dtype: str) -> str:
        return self._pick(level, Kind("tensor", dtype))

    # Nodes on tensors

    def _unary(self, level: Level, depth: int) -> None:
        dtype = self._dtype()
        self._one(level, self.random.choice(UNARY[dtype]), [self._tensor(level, dtype)], Kind("tensor", dtype))

    def _binary(self, level: Level, depth: int) -> None:
        dtype = self._dtype()
        operands = [self._tensor(level, dtype), self._tensor(level, dtype)]
        self._one(level, self.random.choice(BINARY[dtype]), operands, Kind("tensor", dtype))

    def _cast(self, level: Level, depth: int) -> None:
        source = self.random.choice([dtype for dtype in self.dtypes if dtype != "string"])
        target = self.random.choice([dtype for dtype in self.dtypes if dtype != "string" or source == "int64"])
        x = self._tensor(level, source)
        if source in FLOATS and target == "int64":  # what is too large for an integer is any number
            x = self._one(level, "Sigmoid", [x], Kind("", source))
        self._one(level, "Cast", [x], Kind("tensor", target), to=CODES[target])

    def _compare(self, level: Level, depth: int) -> None:
        dtype = self._dtype()
        operator = "Equal" if dtype in ("bool", "string") else self.random.choice(("Equal", "Greater", "LessOrEqual"))
        y = self._one(level, operator, [self._tensor(level, dtype), self._tensor(level, dtype)], Kind("tensor", "bool"))
        self._one(level, "Gather", [y, self._constant(level, np.int64(self.random.randint(-3, 2)))], FLAG)

    def _where(self, level: Level, depth: int) -> None:
        dtype = self._dtype()
        operands = [self._tensor(level, "bool"), self._tensor(level, dtype), self._tensor(level, dtype)]
        self._one(level, "Where", operands, Kind("tensor", dtype))

    def _split(self, level: Level, depth: int) -> None:
        """Two outputs, put together the other way round."""
        dtype = self._dtype()
        sizes = self._constant(level, np.array([1, 2]))
        parts = self._add(level, "Split", [self._tensor(level, dtype), sizes], Kind("", dtype), Kind("", dtype))
        self._one(level, "Concat", parts[::-1], Kind("tensor", dtype), axis=0)

    def _swish(self, level: Level, depth: int) -> None:
        """What a fusion makes one node of."""
        dtype = self.random.choice([dtype for dtype in self.dtypes if dtype in FLOATS])
        x = self._tensor(level, dtype)
        gate = self._one(level, "Sigmoid", [x], Kind("tensor", dtype))
        self._one(level, "Mul", [x, gate], Kind("tensor", dtype))

    def _call(self, level: Level, depth: int) -> None:
        """A function of the model's own."""
        dtype = self.random.choice([dtype for dtype in self.dtypes if dtype not in ("bool", "string")])
        self.calls = True
        operands = [self._tensor(level, dtype), self._tensor(level, dtype)]
        self._one(level, "MulSub", operands, Kind("tensor", dtype), domain="local")

    # Sequences and optionals

    def _sequence(self, level: Level, depth: int) -> None:
        dtype = self._dtype()
        kind, tensor = Kind("sequence", dtype), Kind("tensor", dtype)
        step = self.random.randrange(8)
        position = self._constant(level, np.int64(self.random.choice((0, -1))))
        if step == 0:
            count = self.random.randint(1, 3)
            self._one(level, "SequenceConstruct", [self._tensor(level, dtype) for _ in range(count)], kind)
        elif step == 1:
            empty = self._one(level, "SequenceEmpty", [], Kind("", dtype), dtype=CODES[dtype])
            self._one(level, "SequenceInsert", [empty, self._tensor(level, dtype)], kind)
        elif step == 2:
            self._one(level, "SequenceInsert", [self._pick(level, kind), self._tensor(level, dtype), position], kind)
        elif step == 3:
            more = self._one(level, "SequenceInsert", [self._pick(level, kind), self._tensor(level, dtype)], kind)
            self._one(level, "SequenceErase", [more, position], kind)
        elif step == 4:
            self._one(level, "SequenceLength", [self._pick(level, kind)], COUNT)
        elif step == 5:
            parts = self._one(level, "SplitToSequence", [self._tensor(level, dtype)], Kind("", dtype), axis=0)
            self._one(level, "ConcatFromSequence", [parts], tensor, axis=0)
        else:
            self._one(level, "SequenceAt", [self._pick(level, kind), position], tensor)

    def _optional(self, level: Level, depth: int) -> None:
        dtype = self._dtype()
        kind = Kind("optional", dtype)
        found = [name for name, known in level.known if known == kind]
        if not found or self.random.random() < 0.3:
            optional = self._one(level, "Optional", [self._tensor(level, dtype)], kind)
            self._one(level, "OptionalGetElement", [optional], Kind("tensor", dtype))
        else:
            self._one(level, "OptionalHasElement", [self.random.choice(found)], FLAG)

    # Control flow

    def _result(self, level: Level, kind: Kind) -> str:
        """A value for the graph to return: its own, inputs among them, not one of the graphs around it."""
        found = [name for name, known in level.own() if known == kind]
        return self.random.choice(found) if found else self._one(level, "Identity", [self._pick(level, kind)], kind)

    def _body(self, level: Level, depth: int, inputs: list[tuple[str, Kind]]) -> Level:
        body = Level(f"{level.prefix}{self.count}.", level.known)
        body.known.extend(inputs)
        self._fill(body, self.random.randint(1, 4), depth - 1)
        return body

    def _graph(self, body: Level, inputs: list[tuple[str, Kind]], outputs: list[tuple[str, Kind]]) -> GraphProto:
        results = [_info(name, kind, None) for name, kind in outputs]
        return helper.make_graph(
            body.nodes, body.prefix + "body", [_info(name, kind, None) for name, kind in inputs], results, body.constants
        )

    def _some_kind(self) -> Kind:
        return Kind(self.random.choice(("tensor", "tensor", "sequence")), self._dtype())

    def _if(self, level: Level, depth: int) -> None:
        kinds = [self._some_kind() for _ in range(self.random.randint(1, 2))]
        flag = self._pick(level, FLAG)
        branches = []
        for _ in range(2):
            self.count += 1
            body = self._body(level, depth, [])
            branches.append(self._graph(body, [], [(self._result(body, kind), kind) for kind in kinds]))
        self._add(level, "If", [flag], *kinds, then_branch=branches[0], else_branch=branches[1])

    def _loop(self, level: Level, depth: int) -> None:
        """Up to three rounds, values that go around, a scan output that is summed up where it is of numbers."""
        kinds = [self._some_kind() for _ in range(self.random.randint(1, 2))]
        trips = self._pick(level, COUNT) if self.random.random() < 0.3 else ""
        trips = self._constant(level, np.int64(self.random.randint(1, 3))) if not trips else self._few(level, trips)
        given = [self._pick(level, kind) for kind in kinds]
        self.count += 1
        names = [f"{level.prefix}{self.count}.{k}" for k in range(len(kinds) + 2)]
        inputs = list(zip(names, (COUNT, FLAG, *kinds), strict=True))
        body = self._body(level, depth, inputs)
        go_on = self._one(
            body, "Identity", [names[1] if self.random.random() < 0.7 else self._pick(body, FLAG)], Kind("", "bool")
        )
        results = [(self._result(body, kind), kind) for kind in kinds]
        scanned = Kind("tensor", "float32")
        outputs = [(go_on, FLAG), *results, (self._result(body, scanned), scanned)]
        stacked = self._add(level, "Loop", [trips, "", *given], *kinds, Kind("", ""), body=self._graph(body, inputs, outputs))[
            -1
        ]
        self._one(level, "ReduceSum", [stacked, self._constant(level, np.array([0]))], scanned, keepdims=0)

    def _few(self, level: Level, count: str) -> str:
        """A count that was computed, brought to 1, 2 or 3."""
        three, one = (self._constant(level, np.int64(k)) for k in (3, 1))
        rest = self._one(level, "Mod", [count, three], Kind("", "int64"))
        return self._one(level, "Add", [rest, one], COUNT)

    def _scan(self, level: Level, depth: int) -> None:
        """A state (3,), and a scan output of what became of each element."""
        dtype = self.random.choice([dtype for dtype in self.dtypes if dtype not in ("bool", "string")])
        kind, scalar = Kind("tensor", dtype), Kind("scalar", dtype)
        given = [self._tensor(level, dtype), self._tensor(level, dtype)]
        self.count += 1
        inputs = [(f"{level.prefix}{self.count}.{name}", known) for name, known in (("state", kind), ("x", scalar))]
        body = self._body(level, depth, inputs)
        state = self._one(body, "Add", [self._tensor(body, dtype), inputs[1][0]], kind)
        each = self._one(body, "Neg", [inputs[1][0]], scalar)
        graph = self._graph(body, inputs, [(state, kind), (each, scalar)])
        self._add(level, "Scan", given, kind, kind, body=graph, num_scan_inputs=1)


def _mul_sub() -> FunctionProto:
    """a * b - a."""
    nodes = [helper.make_node("Mul", ["a", "b"], ["t"]), helper.make_node("Sub", ["t", "a"], ["y"])]
    return helper.make_function("local", "MulSub", ["a", "b"], ["y"], nodes, [helper.make_opsetid("", OPSET)])


def _reads(node: NodeProto) -> set[str]:
    """What the node or a body of it names."""
    graphs = [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]
    inner = {name for graph in graphs for nested in graph.node for name in _reads(nested)}
    return {*node.input, *inner, *(value.name for graph in graphs for value in graph.output)}


def _info(name: str, kind: Kind, length: int | str | None) -> ValueInfoProto:
    shape: list[Any] = [] if kind.form == "scalar" else [length]
    tensor = helper.make_tensor_type_proto(CODES[kind.dtype], shape)
    if kind.form == "sequence":
        tensor = helper.make_sequence_type_proto(tensor)
    elif kind.form == "optional":
        tensor = helper.make_optional_type_proto(tensor)
    return helper.make_value_info(name, tensor)
