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

from ort_lite.dtypes import Array, DType, itemsize, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Graph, Node, SequenceType, Value
from ort_lite.inference import CONTENTS_LIMIT, ContentsUnknown, Inference, Info, NumbersUnknown, RankUnknown, ShapeRules
from ort_lite.native.spec import Spec
from ort_lite.provider import Body
from ort_lite.shapes import Dim, Shape, Symbol, as_symbol, product, same, symbol
from ort_lite_cpu import primitives
from ort_lite_cpu.lowered import NOWHERE, HostStep, Instruction, Lowered, Requirement, Source
from ort_lite_cpu.op import Kernel, Op
from ort_lite_cpu.options import Options
from ort_lite_cpu.registry import find
from ort_lite_cpu.strided import emit_permute
from ort_lite_cpu.tensor import BY_SIZE, Buffer, Tensor


class Lowering:
    """State while nodes are lowered; `Op` is the view of it that operators get."""

    def __init__(
        self, inputs: Sequence[tuple[Value, Info]], rules: ShapeRules, options: Options, bodies: Mapping[Graph, Body]
    ) -> None:
        self.options, self.bodies = options, bodies
        self.inference = Inference(rules, strict=True)
        self.tensors: dict[Value, Tensor] = {}
        self.result = Lowered()
        self._pinned: dict[Buffer, Shape] = {}
        """Buffers that become arrays which somebody outside looks at: inputs, outputs, what host steps touch."""
        self._shared: set[Buffer] = set()
        """Those of them whose arrays may be somebody else's too."""
        self._packed: dict[tuple[int, str], tuple[Any, Tensor]] = {}
        for value, info in inputs:
            self._add_input(value, info)

    # --- nodes
    def run(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> Lowered:
        """Lowers all nodes, then decides where the outputs lie."""
        self.remaining: dict[Value, int] = {}
        for node in nodes:
            for value in (*node.inputs, *node.captures()):
                if value is not None:
                    self.remaining[value] = self.remaining.get(value, 0) + 1
        for value in outputs:
            self.remaining[value] = self.remaining.get(value, 0) + 1
        for position, node in enumerate(nodes):
            try:
                self._node(node)
            except _Open as open_:
                from ort_lite_cpu.tail import add_tail

                add_tail(self, nodes[position:], outputs, open_.value, open_.numbers)
                break
            for value in node.inputs:
                if value is not None:
                    self.remaining[value] -= 1
        for value in outputs:
            self.result.outputs.append(self._as_output(value))
        return self.result

    def _node(self, node: Node) -> None:
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
        registration.lower(Op(self, node, infos))

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
        buffer = Buffer(0)
        self.inference.infos[value] = info
        dtype, shape = info.dtype or "", info.shape or ()
        tensor = self.tensors[value] = Tensor(dtype, shape, buffer, name=value.name, ranked=info.shape is not None)
        self.result.inputs.append(buffer)
        self.result.input_infos.append(info)
        self.result.primary[buffer] = tensor
        self._pinned[buffer] = shape
        self._define(buffer, shape)

    def _define(self, buffer: Buffer, shape: Shape) -> None:
        for axis, dim in enumerate(shape):
            found = as_symbol(dim)
            if found is not None and found not in self.result.sources:
                self.result.sources[found] = Source(buffer, axis, element=False)

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

    # --- tensors
    def new(self, dtype: DType, shape: Shape, perm: tuple[int, ...] | None = None) -> Tensor:
        if perm is not None and perm == tuple(range(len(shape))):
            perm = None
        buffer = Buffer(product(shape) * itemsize(dtype))
        tensor = Tensor(dtype, tuple(shape), buffer, perm)
        self.result.primary[buffer] = tensor
        return tensor

    def view(self, tensor: Tensor, shape: Shape) -> Tensor:
        tensor = self.stored(tensor)
        return Tensor(tensor.dtype, tuple(shape), tensor.buffer)

    def stored(self, tensor: Tensor, perm: tuple[int, ...] | None = None) -> Tensor:
        """`tensor` in memory, in storage order `perm`; conversions are made once and shared."""
        if perm is not None and perm == tuple(range(len(tensor.shape))):
            perm = None
        tensor = self.computed(tensor)
        if tensor.perm == perm:
            return tensor
        found = tensor.layouts.get(perm)
        if found is None:
            found = tensor.layouts[perm] = self._permuted(tensor, perm)
        return found

    def computed(self, tensor: Tensor) -> Tensor:
        """`tensor` in memory, in whatever storage order it has."""
        if tensor.pending is not None:
            from ort_lite_cpu.elementwise.fuse import materialise

            materialise(self, tensor)
        if tensor.buffer is None:
            self._store_contents(tensor)
        return tensor

    def _store_contents(self, tensor: Tensor) -> None:
        assert tensor.contents is not None, f"{tensor.name!r} has neither memory nor contents"
        if all(isinstance(element, int) for element in tensor.contents):
            shape = [dim for dim in tensor.shape if isinstance(dim, int)]
            array = np.array(tensor.contents, to_numpy(tensor.dtype)).reshape(shape)
            tensor.buffer = Buffer(array.nbytes, array)
            return
        made = self.new(tensor.dtype, tensor.shape)
        tensor.buffer = made.buffer
        assert made.buffer is not None
        self.result.primary[made.buffer] = tensor
        for at in range(0, len(tensor.contents), 8):
            chunk = tensor.contents[at : at + 8]
            padded = (*chunk, *(0,) * (8 - len(chunk)))
            self.emit(NOWHERE, primitives.store, [tensor], (at, len(chunk), *padded), 1, None, {}, None, "")

    def _permuted(self, tensor: Tensor, perm: tuple[int, ...] | None) -> Tensor:
        old = tensor.perm or tuple(range(len(tensor.shape)))
        wanted = perm or tuple(range(len(tensor.shape)))
        if [a for a in old if not same(tensor.shape[a], 1)] == [a for a in wanted if not same(tensor.shape[a], 1)]:
            return tensor.replace(perm=perm)  # only axes of one element move: the same bytes
        made = self.new(tensor.dtype, tensor.shape, perm)
        made.layouts = tensor.layouts
        tensor.layouts[tensor.perm] = tensor
        emit_permute(self, NOWHERE, tensor, made, tensor.stored_shape, [old.index(axis) for axis in wanted])
        return made

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """`tensor` as elements of another type, in the storage order it has; made once and shared."""
        if tensor.dtype == dtype:
            return tensor
        if dtype not in tensor.casts:
            from ort_lite_cpu.operators.cast import converted

            tensor.casts[dtype] = self.computed(converted(self.computed(tensor), dtype))
        return tensor.casts[dtype]

    def packed(self, source: Any, form: str, make: Callable[[], Tensor]) -> Tensor:
        key = (id(source), form)
        if key not in self._packed:
            self._packed[key] = (source, make())  # the source is kept: its id must stay its own
        return self._packed[key][1]

    # --- instructions
    def emit(
        self,
        node: Node,
        kernel: Kernel | Spec,
        operands: Sequence[Tensor | None],
        scalars: Sequence[Dim | float],
        work: Dim | None,
        types: Sequence[str] | None,
        statics: Mapping[str, int | float | bool | str],
        inplace: tuple[int, int] | None,
        message: str,
    ) -> None:
        if not isinstance(kernel, Spec):
            names = types or [_type_of(operands, k) for k in range(len(operands))]
            kernel = Spec(kernel, names, statics)
        if work is None:
            last = operands[-1]
            work = 1 if last is None else last.size
        buffers = tuple(None if tensor is None else tensor.buffer for tensor in operands)
        for tensor, buffer in zip(operands, buffers, strict=True):
            assert tensor is None or buffer is not None, f"{node}: operand {tensor.name!r} is not in memory"
        self.result.items.append(Instruction(node, kernel, buffers, tuple(scalars), work, message, inplace))

    def require(self, node: Node, condition: Dim, message: str, numbers: tuple[Dim, ...]) -> None:
        if isinstance(condition, int):
            if not condition:
                raise InvalidArgument(f"{node} (CPUExecutionProvider): {message.format(*numbers)}")
            return
        self.result.items.append(Requirement(node, condition, message, numbers))

    def host(
        self,
        node: Node,
        function: Callable[..., Sequence[Any]],
        python: bool,
        captures: Sequence[Value] = (),
        shared: Collection[int] = (),
    ) -> None:
        """Adds a step that runs in Python between two segments, with the node's inputs and then `captures`."""
        inputs = [None if value is None else self.tensor(value) for value in (*node.inputs, *captures)]
        infos = [None if value is None else self.inference.of(value) for value in node.outputs]
        for value, tensor in zip(node.outputs, self.step(node, function, inputs, infos, python, shared), strict=True):
            if value is not None and tensor is not None:
                tensor.name = value.name
                self.tensors[value] = tensor

    def step(
        self,
        node: Node,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Tensor | None],
        infos: Sequence[Info | None],
        python: bool = True,
        shared: Collection[int] = (),
    ) -> list[Tensor | None]:
        """As `host`, for any tensors; returns those that the step makes, of which `infos` tell.

        shared: outputs that may be, or hold, an array that the step was given, or a constant.
        """
        given = tuple(None if tensor is None else self.pinned(tensor) for tensor in inputs)
        made = tuple(None if info is None else self._made_outside(info) for info in infos)
        self._shared.update(t.buffer for k, t in enumerate(made) if k in shared and t is not None and t.buffer is not None)
        self.result.items.append(HostStep(node, function, given, made, python))
        return list(made)

    def _made_outside(self, info: Info) -> Tensor:
        buffer = Buffer(0)
        tensor = Tensor(info.dtype or "", info.shape or (), buffer, ranked=info.shape is not None)
        self.result.primary[buffer] = tensor
        self._pinned[buffer] = tensor.shape
        self._define(buffer, tensor.shape)
        return tensor

    def pinned(self, tensor: Tensor) -> Tensor:
        """`tensor` in logical order in a buffer whose array has its shape: a copy where somebody else sees another shape."""
        tensor = self.stored(tensor)
        buffer = tensor.buffer
        assert buffer is not None
        if not tensor.ranked:
            return tensor
        if buffer.constant is not None:
            # Folded constants may have strides of 0; kernels of a body read it from its first byte on.
            array = np.require(buffer.constant, requirements="C")
            if array is buffer.constant and array.shape == tensor.shape:
                return tensor
            return Tensor(tensor.dtype, tensor.shape, Buffer(buffer.nbytes, array.reshape(tensor.shape)))
        pinned = self._pinned.setdefault(buffer, tensor.shape)
        if pinned != tensor.shape:
            return self.pinned(self._copied(tensor))
        self.result.primary[buffer] = tensor
        return tensor

    def _copied(self, tensor: Tensor) -> Tensor:
        made = self.new(tensor.dtype, tensor.shape)
        width = BY_SIZE[itemsize(tensor.dtype)]
        self.emit(NOWHERE, primitives.copy, [tensor, made], (tensor.size,), tensor.size, [width] * 2, {}, None, "")
        return made

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
        if not others:
            return self.pinned(tensor)
        if not tensor.ranked or tensor.dtype == "string":
            [made] = self.step(NOWHERE, _copy, [tensor], [info], python=tensor.dtype == "string")
            assert made is not None
            return made
        return self.pinned(self._copied(tensor))


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


def _type_of(operands: Sequence[Tensor | None], index: int) -> str:
    """Pointer type of an operand; one that is left out has the type of the first operand, which nobody reads."""
    tensor = operands[index]
    return tensor.native if tensor is not None else next(t.native for t in operands if t is not None)
