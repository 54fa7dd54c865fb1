"""A program under construction: tensors get memory, storage orders and other element types, instructions follow each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ort_lite.dtypes import DType, itemsize, to_numpy
from ort_lite.errors import NodeFailure
from ort_lite.graph import Node
from ort_lite.inference import Info
from ort_lite.memory.recipes import derive
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.extents import Extent, contract
from ort_lite.native.spec import Spec
from ort_lite.shapes import Symbol, as_symbol, equal, maximum, product, same, symbol, symbols
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import work_of_copy
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.broadcast import require_broadcast
from ort_lite_cpu.lowering.emitter import Emitter
from ort_lite_cpu.lowering.lowered import (
    NOWHERE,
    SLICES,
    HostStep,
    Instruction,
    Kernel,
    LoweringResult,
    Message,
    Requirement,
    SymbolSource,
    most_parts,
)
from ort_lite_cpu.lowering.operand_check import OperandCheck, native_types
from ort_lite_cpu.lowering.strided import emit_permute
from ort_lite_cpu.lowering.tensor import (
    Buffer,
    DeferredInstruction,
    Tensor,
    bits,
    leaves_of,
    narrow_operands,
    same_shape,
    storage_order,
)
from ort_lite_cpu.run.kernels import Kernels


class Builder:
    """The tensors and instructions of a program; it knows nothing of values and their shapes."""

    def __init__(self, threads: int, kernels: Kernels) -> None:
        """`threads`: the threads of a run."""
        self._operand_check, self._threads = OperandCheck(), threads
        self.kernels, self.all_come = kernels, kernels.all_come
        self.owner = NOWHERE
        """The node that is being lowered: whose fault it is where something inserted does not fit."""
        self.result = LoweringResult(kernels=kernels)
        self._pinned: dict[Buffer, Shape] = {}
        """Buffers that become arrays which somebody outside looks at: inputs, outputs, what host steps touch."""
        self._shared: set[Buffer] = set()
        """Those of them whose arrays may be somebody else's too."""
        self.exact: set[Buffer | None] = set()
        """Those of them whose arrays have the shapes that inference says: a program is called with no others."""
        self._born: dict[Buffer, int] = {}
        """The number of symbols that had a source when each buffer that instructions fill was created."""
        self._packed: dict[tuple[int, str], tuple[Any, Tensor]] = {}
        self._required: set[Dim] = set()
        self._unseen: dict[Buffer, tuple[Node, Tensor]] = {}
        """Results of Python steps that no kernel has read yet: their shape is what inference says."""

    # --- tensors
    def new(self, dtype: DType, shape: Shape, perm: tuple[int, ...] | None = None) -> Tensor:
        """Return a new tensor in memory, its axes stored in the order of `perm`."""
        if perm is not None and perm == tuple(range(len(shape))):
            perm = None
        buffer = Buffer(product(shape) * itemsize(dtype))
        tensor = Tensor(dtype, tuple(shape), buffer, perm)
        self.result.primary[buffer] = tensor
        self._born[buffer] = len(self.result.sources)
        return tensor

    def view(self, tensor: Tensor, shape: Shape) -> Tensor:
        """Return the tensor under another shape, over the same memory."""
        tensor = self.store(tensor)
        return Tensor(tensor.dtype, tuple(shape), tensor.buffer)

    def store(self, tensor: Tensor, perm: tuple[int, ...] | None = None) -> Tensor:
        """Return `tensor` in memory, in storage order `perm`; conversions are made once and shared."""
        if perm is not None and perm == tuple(range(len(tensor.shape))):
            perm = None
        if tensor.pending is not None:
            self._compute_in(tensor, perm)
        tensor = self.materialize(tensor)
        if tensor.perm == perm:
            return tensor
        found = tensor.layouts.get(perm)
        if found is None:
            found = tensor.layouts[perm] = self._permute(tensor, perm)
        return found

    def materialize(self, tensor: Tensor) -> Tensor:
        """Return `tensor` in memory, in whatever storage order it has."""
        if tensor.pending is not None:
            self.compute(tensor, tensor.pending.node or NOWHERE)
        if tensor.later is not None:
            self._catch_up(tensor, tensor.later)
        if tensor.buffer is None:
            self._store_contents(tensor)
        return tensor

    def _compute_in(self, tensor: Tensor, perm: tuple[int, ...] | None) -> None:
        """Compute a pending tensor in the storage order `perm` where it would have another, and what it is made of has fewer bytes:
        where a model ends, the integers of a quantised image are moved, and not its floats.
        """
        if storage_order(tensor) == perm:
            return
        size = itemsize(tensor.dtype)
        for operand in narrow_operands(tensor, size):
            self.materialize(operand)
        whole = [leaf for leaf in leaves_of(tensor) if same_shape(leaf.shape, tensor.shape)]
        if sum(itemsize(leaf.dtype) for leaf in whole) < size:
            self.compute(tensor, tensor.pending.node or NOWHERE if tensor.pending else NOWHERE, perm)

    def compute(self, tensor: Tensor, node: Node, *order: tuple[int, ...] | None) -> None:
        """Emit the loop of a pending tensor, which then has a buffer and a storage order: `order`, if there is one."""
        from ort_lite_cpu.lowering.fuse import fuse, leaves_in_memory

        perm, leaves = order[0] if order else storage_order(tensor), leaves_in_memory(tensor)
        # Leaves of the same shape take its storage order; others are read in logical order through strides.
        stored = [self.store(leaf, perm if same_shape(leaf.shape, tensor.shape) else None) for leaf in leaves]
        for leaf in stored:
            require_broadcast(self.on_behalf(node), leaf.shape, tensor.shape)
        out = self.new(tensor.dtype, tensor.shape, perm)
        loop = fuse(tensor, leaves, stored, out)
        if not self.all_come and not self.kernels.has_kernel(loop.spec):
            from ort_lite_cpu.lowering.unfused import unfuse

            loop, stored = unfuse(self, node, tensor, loop, stored, out)
        self.emit(
            node, loop.spec, [*stored, out], scalars=loop.scalars, work=loop.work, touched=loop.touched, inplace=loop.inplace
        )
        tensor.buffer, tensor.perm, tensor.pending = out.buffer, out.perm, None
        assert out.buffer is not None
        self.result.primary[out.buffer] = tensor

    def _catch_up(self, tensor: Tensor, later: DeferredInstruction) -> None:
        """Emit the deferred instruction of a tensor."""
        made = self.new(tensor.dtype, tensor.shape, tensor.perm)
        later.emit(made)
        tensor.buffer, tensor.later = made.buffer, None
        assert made.buffer is not None
        self.result.primary[made.buffer] = tensor

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
            values = {f"v{k}": value for k, value in enumerate(padded)}
            self.emit(NOWHERE, primitives.store, [tensor], named={"at": at, "count": len(chunk), **values}, work=1)

    def _permute(self, tensor: Tensor, perm: tuple[int, ...] | None) -> Tensor:
        old = tensor.perm or tuple(range(len(tensor.shape)))
        wanted = perm or tuple(range(len(tensor.shape)))
        if [a for a in old if not same(tensor.shape[a], 1)] == [a for a in wanted if not same(tensor.shape[a], 1)]:
            return tensor.replace(perm=perm)  # only axes of one element move: the same bytes
        made = self.new(tensor.dtype, tensor.shape, perm)
        made.layouts = tensor.layouts
        tensor.layouts[tensor.perm] = tensor
        emit_permute(self.on_behalf(NOWHERE), tensor, made, tensor.storage_shape, [old.index(axis) for axis in wanted])
        return made

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Return `tensor` as elements of another type, in the storage order it has; made once and shared."""
        if tensor.dtype == dtype:
            return tensor
        if dtype not in tensor.casts:
            from ort_lite_cpu.lowering.conversion import convert

            tensor.casts[dtype] = self.materialize(convert(self.materialize(tensor), dtype))
        return tensor.casts[dtype]

    def pack(self, source: Any, form: str, make: Callable[[], Tensor]) -> Tensor:
        """Return the packed form of a source; `make` makes it once."""
        key = (id(source), form)
        if key not in self._packed:
            self._packed[key] = (source, make())  # the source is kept: its id must stay its own
        return self._packed[key][1]

    # --- instructions
    def on_behalf(self, node: Node) -> Emitter:
        """Return a builder for what a node needs without its operator at hand, or for no node."""
        return _OnBehalf(self, node)

    def emit(
        self,
        node: Node,
        kernel: Kernel | Spec,
        operands: Sequence[Tensor | None],
        *,
        named: Mapping[str, Any] = {},
        scalars: Sequence[Dim | float] = (),
        work: Dim | None = None,
        types: Sequence[str] | None = None,
        inplace: tuple[int, int] | None = None,
        message: Message = "",
        touched: Mapping[str, Extent] = {},
        rounds: Dim = 1,
        slices: int = SLICES,
        over: tuple[int, int] | None = None,
    ) -> None:
        """Add an instruction: see `NodeLowering.emit`. A checkpoint.

        A Spec of generated code, whose parameters have no names, has its `scalars` in order, and in `touched` an extent for each
        operand, by its number.
        """
        checkpoint()
        if isinstance(kernel, Spec):
            spec = kernel
        else:
            scalars, statics = contract(kernel).arrange(named)
            spec = Spec.of(kernel, types or native_types(operands), statics)
        if work is None:
            last = operands[-1]
            work = 1 if last is None else last.size
        owner, parts = self.owner if node is NOWHERE else node, most_parts(self._threads, slices)
        for left in self._operand_check.check(owner, spec, operands, scalars, touched, parts):
            self.require(left.node, left.condition, left.message, left.numbers)
        buffers = tuple(None if tensor is None else tensor.buffer for tensor in operands)
        for tensor in operands:
            self.look_at(tensor)
        self.result.items.append(
            Instruction(node, spec, buffers, tuple(scalars), work, message, inplace, rounds, slices=slices, over=over)
        )

    def require(self, node: Node, condition: Dim, message: str, numbers: tuple[Dim, ...]) -> None:
        """Require a condition on sizes, for a node; a run fails with `message` if it does not hold."""
        node = self.owner if node is NOWHERE else node
        if isinstance(condition, int):
            if not condition:
                raise NodeFailure(f"{node} (CPUExecutionProvider): {message.format(*numbers)}").about(node)
            return
        if condition not in self._required:
            self._required.add(condition)
            self.result.items.append(Requirement(node, condition, message, numbers))

    def look_at(self, tensor: Tensor | None) -> None:
        """Note that native code is about to read the result of a step."""
        if tensor is not None and tensor.buffer in self._unseen:
            self._require_shape(*self._unseen.pop(tensor.buffer))

    def _require_shape(self, node: Node, tensor: Tensor) -> None:
        """Require the array that a step made to have the shape that kernels believe. Without elements any other will do."""
        assert tensor.buffer is not None
        found: list[Dim] = []
        for axis, dim in enumerate(tensor.shape):
            own, source = as_symbol(dim), SymbolSource(tensor.buffer, axis, element=False)
            if isinstance(dim, int) or (own is not None and self.result.sources.get(own) == source):
                found.append(dim)
                continue
            name = f"{tensor.name}.shape[{axis}]#{len(self.result.sources)}"
            self.result.sources[Symbol(name)] = source
            found.append(symbol(name))
        fits = product(equal(dim, there) for dim, there in zip(tensor.shape, found, strict=True))
        if not same(fits, 1):
            empty = equal(product(tensor.shape), 0) * equal(product(found), 0)
            count = len(found)
            came, wanted = (", ".join(f"{{{k}}}" for k in range(at, at + count)) for at in (0, count))
            name = tensor.name.replace("{", "{{").replace("}", "}}")
            message = f"its result {name!r} has the shape ({came}), expected ({wanted})"
            self.require(node, maximum(fits, empty), message, (*found, *tensor.shape))

    # --- steps outside of segments
    def step(
        self,
        node: Node,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Tensor | None],
        infos: Sequence[Info | None],
        python: bool = True,
        shared: Collection[int] = (),
        exact: bool = False,
    ) -> list[Tensor | None]:
        """Add a step that runs in Python between two segments. Returns the tensors that it makes, of which `infos` tell.

        What it makes has their element types, ranks and known dims, or the run fails (`host_step.run_host_step`). Dims that are
        expressions, or symbols of somebody else, become a requirement where the first kernel reads it.
        shared: outputs that may be, or hold, an array that the step was given, or a constant. exact: they have the shapes that
        inference says, for inputs that have them.
        """
        given = tuple(None if tensor is None else self.pin(tensor) for tensor in inputs)
        made = tuple(None if info is None else self.add_external(info) for info in infos)
        outputs = {tensor.buffer: (node, tensor) for tensor in made if tensor is not None and tensor.buffer is not None}
        if exact and self.exact.issuperset(tensor.buffer for tensor in given if tensor is not None):
            self.exact.update(outputs)
        else:
            self._unseen.update(outputs)
        self._shared.update(t.buffer for k, t in enumerate(made) if k in shared and t is not None and t.buffer is not None)
        self.result.items.append(HostStep(node, function, given, made, python))
        return list(made)

    def take_back(self, tensor: Tensor, kept: Shape, fits: Callable[[Any], bool], lost: Shape = ()) -> HostStep | None:
        """Return the step that makes `tensor` and nothing else, which is undone, if its function fits; else None.

        The caller, the only reader, makes an array with the dims `kept` instead: they tell the symbols that the tensor told. Of
        `lost` symbols nobody asks any more. A step that tells symbols is the last one: what follows it may read them.
        """
        items = self.result.items
        found = next((item for item in reversed(items) if isinstance(item, HostStep) and _makes(item, tensor)), None)
        if found is None or not fits(found.function):
            return None
        told = [symbol_ for symbol_, source in self.result.sources.items() if source.buffer is tensor.buffer]
        if told and (found is not items[-1] or not {*told} <= {*map(as_symbol, (*kept, *lost))}):
            return None
        for symbol_ in told:
            del self.result.sources[symbol_]
        items.remove(found)
        return found

    def add_external(self, info: Info, name: str = "") -> Tensor:
        """Return a tensor whose array comes from outside of all segments: its dimensions are sources of symbols."""
        known = info.shape is not None and info.dtype is not None and info.dtype != "string"
        buffer = Buffer(product(info.shape or ()) * itemsize(info.dtype or "") if known else 0)
        tensor = Tensor(info.dtype or "", info.shape or (), buffer, name=name, ranked=info.shape is not None)
        self.result.primary[buffer] = tensor
        self._pinned[buffer] = tensor.shape
        for axis, dim in enumerate(tensor.shape):
            found = as_symbol(dim)
            if found is not None and found not in self.result.sources:
                self.result.sources[found] = SymbolSource(buffer, axis, element=False)
        return tensor

    def pin(self, tensor: Tensor, node: Node = NOWHERE) -> Tensor:
        """Return `tensor` in logical order in a buffer whose array has its shape: a copy if somebody else sees another shape.

        `node` is whose the copy is, for messages.
        """
        tensor = self.store(tensor)
        buffer = tensor.buffer
        assert buffer is not None
        if not tensor.ranked:
            return tensor
        if buffer.constant is not None:
            if symbols(tensor.shape):  # Reshape gave the constant a shape that the run tells
                return self.pin(self.copy(tensor, node))
            # Folded constants may have strides of 0; kernels of a body read it from its first byte on.
            array = derive(np.ascontiguousarray, buffer.constant) if buffer.constant.ndim else buffer.constant
            if array is buffer.constant and array.shape == tensor.shape:
                return tensor
            return Tensor(tensor.dtype, tensor.shape, Buffer(buffer.nbytes, array.reshape(tensor.shape)))
        pinned = self._pinned.setdefault(buffer, self._first_shape(buffer, tensor.shape))
        if pinned != tensor.shape:
            return self.pin(self.copy(tensor, node))
        self.result.primary[buffer] = tensor
        return tensor

    def _first_shape(self, buffer: Buffer, wanted: Shape) -> Shape:
        """Return the shape of the array that a buffer becomes: `wanted`, unless a symbol of it is unknown when the buffer is filled."""
        made = self.result.primary[buffer].shape
        if made == wanted:
            return made
        known = set(islice(self.result.sources, self._born.get(buffer)))
        return wanted if known.issuperset(symbols(wanted)) else made

    def take_in(self, tensor: Tensor) -> None:
        """Make a tensor of the program around this one an input."""
        if tensor.buffer is not None:
            self.result.primary[tensor.buffer] = tensor
            self._pinned[tensor.buffer] = tensor.shape
            self.result.inputs.append(tensor.buffer)

    def is_shared(self, buffer: Buffer) -> bool:
        """Return True if the array that a buffer becomes may be somebody else's too."""
        return buffer.constant is not None or buffer in self.result.inputs or buffer in self._shared

    def copy(self, tensor: Tensor, node: Node = NOWHERE) -> Tensor:
        """Return a copy of the tensor."""
        made = self.new(tensor.dtype, tensor.shape)
        source, target = bits(tensor), bits(made)
        self.emit(
            node, primitives.copy, [source, target], named={"count": target.size}, work=work_of_copy(target.dtype, target.size)
        )
        return made


def _makes(step: HostStep, tensor: Tensor) -> bool:
    """Return True if `tensor`, which has a buffer, is the only result of a step."""
    return tensor.buffer is not None and [made and made.buffer for made in step.outputs] == [tensor.buffer]


class _OnBehalf:
    """An `Emitter` for a node whose operator is not at hand, or for what no node asked for."""

    def __init__(self, builder: Builder, node: Node) -> None:
        self._builder, self._node = builder, node

    def emit(
        self, kernel: Kernel, operands: Sequence[Tensor], *, work: Dim, touched: Mapping[str, Extent] = {}, **named: Any
    ) -> None:
        self._builder.emit(self._node, kernel, operands, named=named, work=work, touched=touched)

    def require(self, condition: Dim, message: str, *numbers: Dim) -> None:
        self._builder.require(self._node, condition, message, numbers)

    def store(self, tensor: Tensor) -> Tensor:
        return self._builder.store(tensor)
