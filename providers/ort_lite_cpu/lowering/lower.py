"""Lowering: nodes with symbolic shapes -> instructions over buffers. Done once, whatever shapes come later.

Nodes are lowered in order, each after its shapes are inferred from what is known by then. Values whose contents are known as
symbolic integers cost nothing: their nodes vanish. Where a shape depends on data, the segment ends: the tensor that tells is
read between two segments and its elements become symbols of the next one. Where not even a rank is known, or a rule needs numbers
and not symbols, lowering ends with a `Tail`: the rest is lowered during the run, once for each combination of what came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import Fail, OrtLiteError
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Graph, Node, SequenceType, Value
from ort_lite.inference import CONTENTS_LIMIT, ContentsUnknown, Inference, Info, NumbersUnknown, RankUnknown, ShapeRules
from ort_lite.provider import Body
from ort_lite.shapes import Symbol, product, symbol
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.builder import Builder
from ort_lite_cpu.lowering.lowered import NOWHERE, Lowered, Source
from ort_lite_cpu.lowering.op import Op
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.options import Options
from ort_lite_cpu.registry import find


class Lowering(Builder):
    """State while nodes are lowered; `Op` is the view of it that operators get."""

    def __init__(
        self, inputs: Sequence[tuple[Value, Info]], rules: ShapeRules, options: Options, bodies: Mapping[Graph, Body]
    ) -> None:
        super().__init__(options.threads)
        self.options, self.bodies = options, bodies
        self.inference = Inference(rules, strict=True)
        self.tensors: dict[Value, Tensor] = {}
        for value, info in inputs:
            self._add_input(value, info)

    # --- nodes
    def run(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> Lowered:
        """Lowers all nodes, then decides where the outputs lie."""
        self.remaining: dict[Value, int] = {}
        for node in nodes:
            for value in node.reads():
                if value is not None:
                    self.remaining[value] = self.remaining.get(value, 0) + 1
        for value in outputs:
            self.remaining[value] = self.remaining.get(value, 0) + 1
        for position, node in enumerate(nodes):
            try:
                self._node(node)
            except _Open as open_:
                from ort_lite_cpu.lowering.tail import add_tail

                add_tail(self, nodes[position:], outputs, open_.value, open_.numbers)
                break
            for value in node.inputs:
                if value is not None:
                    self.remaining[value] -= 1
        for value in outputs:
            self.result.outputs.append(self._as_output(value))
        return self.result

    def _node(self, node: Node) -> None:
        self.owner = node
        infos = self._infer(node)
        made = [(value, info) for value, info in zip(node.outputs, infos, strict=True) if value is not None]
        if made and all(info.contents is not None for _, info in made):
            for value, info in made:
                assert info.shape is not None and info.dtype is not None
                self.tensors[value] = Tensor(info.dtype, info.shape, contents=info.contents, name=value.name)
            return
        registration = find(node)
        if registration is None:
            raise NotSupported(f"{node} (CPUExecutionProvider): no kernel for {node.domain or 'ai.onnx'}.{node.op_type}")
        try:
            registration.lower(Op(self, node, infos))
        except (OrtLiteError, _Open):
            raise
        except Exception as error:
            given = ", ".join("(left out)" if v is None else f"{v.name!r} {self.inference.of(v).type}" for v in node.inputs)
            raise Fail(
                f"{node} (CPUExecutionProvider): it cannot be lowered for inputs {given or 'none'} and these attributes: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _infer(self, node: Node) -> list[Info]:
        """What is known of the node's outputs, once enough is known of its inputs: each question is asked once."""
        asked: set[int] = set()
        while True:
            try:
                return self.inference.node(node)
            except (ContentsUnknown, RankUnknown) as unknown:
                value = node.inputs[unknown.index]
                assert value is not None
                if unknown.index in asked or self._is_exact(value, unknown):
                    raise NotSupported(
                        f"{node} (CPUExecutionProvider): its shape rule asks more of {value.name!r} than can be known: {unknown!r}"
                    ) from None
                if isinstance(unknown, RankUnknown | NumbersUnknown):
                    raise _Open(value, numbers=isinstance(unknown, NumbersUnknown)) from None
                asked.add(unknown.index)
                self.contents(value, node)

    def _is_exact(self, value: Value, unknown: ContentsUnknown | RankUnknown) -> bool:
        """Whether a tail has already been told what the rule asks for."""
        info = self.inference.of(value)
        if isinstance(unknown, RankUnknown):
            return info.shape is not None and all(isinstance(dim, int) for dim in info.shape)
        return isinstance(unknown, NumbersUnknown) and info.constant is not None

    # --- values
    def tensor(self, value: Value) -> Tensor:
        found = self.tensors.get(value)
        if found is None:
            if value.constant is None:
                raise NotSupported(f"{value.name!r} reaches the CPUExecutionProvider without a producer")
            info = self.inference.of(value)
            assert info.dtype is not None
            buffer = Buffer(value.constant.nbytes, value.constant)
            found = Tensor(info.dtype, value.constant.shape, buffer, contents=info.contents, name=value.name)
            self.tensors[value] = found
        return found

    def constant(self, value: Value) -> Array | None:
        """The array of a constant, or of a value whose elements this program was lowered for."""
        return self.inference.of(value).constant

    def _add_input(self, value: Value, info: Info) -> None:
        self.inference.infos[value] = info
        tensor = self.tensors[value] = self.made_outside(info, value.name)
        assert tensor.buffer is not None
        self.result.inputs.append(tensor.buffer)
        self.result.input_infos.append(info)

    def contents(self, value: Value, node: Node) -> tuple[Dim, ...]:
        """Elements of a small integer tensor; read between two segments when they are not known."""
        info = self.inference.of(value)
        if info.contents is not None:
            return info.contents
        if info.constant is not None:
            return tuple(int(element) for element in info.constant.reshape(-1))
        count = None if info.shape is None else product(info.shape)
        if not isinstance(count, int):
            raise _Open(value)
        if count > CONTENTS_LIMIT:
            raise NotSupported(f"{node} (CPUExecutionProvider): shape operand {value.name!r} has {count} elements")
        tensor = self.stored(self.tensor(value))
        assert tensor.buffer is not None
        if tensor.buffer not in self.result.inputs:
            self.result.items.append(None)
        names = [Symbol(f"{value.name}[{i}]", signed=True) for i in range(count)]
        for i, name in enumerate(names):
            self.result.sources.setdefault(name, Source(tensor.buffer, i, element=True))
        elements = tuple(symbol(name.name, signed=True) for name in names)
        self.inference.infos[value] = Info(info.type, elements, info.constant)
        return elements

    def open(self, value: Value, numbers: bool = False) -> Exception:
        """For `raise lowering.open(value)`: the node is lowered during the run, when the value's shape (elements) is known."""
        return _Open(value, numbers)

    # --- to and from the outside
    def host(
        self,
        node: Node,
        function: Callable[..., Sequence[Any]],
        python: bool,
        captures: Sequence[Value] = (),
        shared: Collection[int] = (),
    ) -> None:
        """As `step`, with the node's inputs and then `captures`; its outputs are the node's."""
        inputs = [None if value is None else self.tensor(value) for value in (*node.inputs, *captures)]
        infos = [None if value is None else self.inference.of(value) for value in node.outputs]
        for value, tensor in zip(node.outputs, self.step(node, function, inputs, infos, python, shared), strict=True):
            if value is not None and tensor is not None:
                tensor.name = value.name
                self.tensors[value] = tensor

    def _as_output(self, value: Value) -> Tensor:
        tensor = self.tensor(value)
        info = self.inference.of(value)
        if isinstance(info.type, SequenceType):
            return tensor  # a list of its own; whoever hands it to the user copies the elements
        tensor = self.stored(tensor)
        buffer = tensor.buffer
        assert buffer is not None
        taken = {other.buffer for other in self.result.outputs}
        others = buffer.constant is not None or buffer in self.result.inputs or buffer in taken or buffer in self._shared
        node = self.owner = value.producer or NOWHERE
        if not others:
            return self.pinned(tensor, node)
        if not tensor.ranked or tensor.dtype == "string":
            [made] = self.step(NOWHERE, _copy, [tensor], [info], python=tensor.dtype == "string")
            assert made is not None
            return made
        return self.pinned(self.copied(tensor, node))


class _Open(Exception):
    """Lowering cannot go on before the run tells the shape of `value`, or its elements as numbers."""

    def __init__(self, value: Value, numbers: bool = False) -> None:
        super().__init__(value.name)
        self.value, self.numbers = value, numbers


def _copy(value: Any) -> list[Any]:
    """An array, or what an optional holds, as the caller's own."""
    if isinstance(value, list):
        return [[_copy(item)[0] for item in value]]
    return [value.copy() if isinstance(value, np.ndarray) else value]
