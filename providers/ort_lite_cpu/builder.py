"""A program under construction: tensors get memory, storage orders and other element types, instructions follow each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import DType, itemsize, to_numpy
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.inference import Info
from ort_lite.native.spec import Spec
from ort_lite.shapes import Dim, Shape, as_symbol, product, same
from ort_lite_cpu import primitives
from ort_lite_cpu.lowered import NOWHERE, HostStep, Instruction, Lowered, Message, Requirement, Source
from ort_lite_cpu.op import Kernel
from ort_lite_cpu.strided import emit_permute
from ort_lite_cpu.tensor import BY_SIZE, Buffer, Tensor


class Builder:
    """What of `Lowering` knows tensors and instructions, and nothing of nodes and their shapes."""

    def __init__(self) -> None:
        self.result = Lowered()
        self._pinned: dict[Buffer, Shape] = {}
        """Buffers that become arrays which somebody outside looks at: inputs, outputs, what host steps touch."""
        self._shared: set[Buffer] = set()
        """Those of them whose arrays may be somebody else's too."""
        self._packed: dict[tuple[int, str], tuple[Any, Tensor]] = {}
        self._required: set[Dim] = set()

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
        message: Message,
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
        if condition not in self._required:
            self._required.add(condition)
            self.result.items.append(Requirement(node, condition, message, numbers))

    # --- steps outside of segments
    def step(
        self,
        node: Node,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Tensor | None],
        infos: Sequence[Info | None],
        python: bool = True,
        shared: Collection[int] = (),
    ) -> list[Tensor | None]:
        """Adds a step that runs in Python between two segments. Returns the tensors that it makes, of which `infos` tell.

        shared: outputs that may be, or hold, an array that the step was given, or a constant.
        """
        given = tuple(None if tensor is None else self.pinned(tensor) for tensor in inputs)
        made = tuple(None if info is None else self.made_outside(info) for info in infos)
        self._shared.update(t.buffer for k, t in enumerate(made) if k in shared and t is not None and t.buffer is not None)
        self.result.items.append(HostStep(node, function, given, made, python))
        return list(made)

    def made_outside(self, info: Info, name: str = "") -> Tensor:
        """A tensor whose array comes from outside of all segments: its dimensions are sources of symbols."""
        buffer = Buffer(0)
        tensor = Tensor(info.dtype or "", info.shape or (), buffer, name=name, ranked=info.shape is not None)
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
            return self.pinned(self.copied(tensor))
        self.result.primary[buffer] = tensor
        return tensor

    def copied(self, tensor: Tensor) -> Tensor:
        made = self.new(tensor.dtype, tensor.shape)
        width = min(itemsize(tensor.dtype), 8)
        count = tensor.nbytes // width if width == 8 else tensor.size  # complex128 is two of the widest
        self.emit(NOWHERE, primitives.copy, [tensor, made], (count,), tensor.size, [BY_SIZE[width]] * 2, {}, None, "")
        return made

    def _define(self, buffer: Buffer, shape: Shape) -> None:
        for axis, dim in enumerate(shape):
            found = as_symbol(dim)
            if found is not None and found not in self.result.sources:
                self.result.sources[found] = Source(buffer, axis, element=False)


def _type_of(operands: Sequence[Tensor | None], index: int) -> str:
    """Pointer type of an operand; one that is left out has the type of the first operand, which nobody reads."""
    tensor = operands[index]
    return tensor.native if tensor is not None else next(t.native for t in operands if t is not None)
