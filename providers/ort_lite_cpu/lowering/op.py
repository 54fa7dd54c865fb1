"""The interface for authors of operators: the node being lowered, its inputs as Tensors, and `emit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.dtypes import Array, DType, from_numpy
from ort_lite.errors import NodeFailure
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite.inference import Info
from ort_lite.memory.recipes import from_attributes, pack_once
from ort_lite.native.cpu import Target
from ort_lite.native.extents import Extent
from ort_lite.shapes import as_symbol, equal
from ort_lite.shapes.dims import Shape
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import Costs, shipped_costs
from ort_lite_cpu.lowering.lowered import SLICES, Choice, Kernel, Message, ResultRegion, SymbolSource, most_parts
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.lowering.values import Open, Values
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.pace import Pace

if TYPE_CHECKING:
    from ort_lite_cpu.options import CPUOptions


class NodeLowering:
    """One node. Shapes and element types of the outputs come from shape inference: `op.info(k)`."""

    def __init__(self, values: Values, node: Node, infos: Sequence[Info]) -> None:
        self.values, self.builder, self.node, self._infos = values, values.builder, node, infos

    def __reduce__(self) -> Any:
        raise TypeError(
            "a node that is being lowered cannot be pickled: functions of steps and of packed constants must not refer to it"
        )

    # --- what the node says
    @property
    def options(self) -> CPUOptions:
        """The options of the provider."""
        return self.values.options

    @property
    def most_parts(self) -> int:
        """The most parts of an instruction, each of which may have scratch memory of its own."""
        return most_parts(self.options.threads)

    @property
    def target(self) -> Target:
        """Return the target of kernels, for which tiles are chosen."""
        return self.builder.result.target

    @property
    def kernels(self) -> Kernels:
        """Return the source of kernels that run at once."""
        return self.builder.kernels

    @property
    def version(self) -> int:
        """The opset version of the node."""
        return self.node.version

    @property
    def pace(self) -> Pace:
        """Return the pace at which a Python step of the node goes through its elements."""
        return Pace(self.node)

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default`."""
        return self.node.attr(name, default)

    def has(self, index: int) -> bool:
        """Return True if the optional input is present."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Return True if the optional output is used."""
        return index < len(self.node.outputs) and self.node.outputs[index] is not None

    def info(self, index: int = 0) -> Info:
        """Return what inference knows of output `index`."""
        return self._infos[index]

    def reject(self, message: str) -> NotSupported:
        """Return the error for a node that no kernel serves: `raise op.reject(...)`."""
        return NotSupported(f"{self.node} (CPUExecutionProvider): {message}").about(self.node)

    @property
    def costs(self) -> Costs:
        """The constants of predicted costs."""
        return self.options.costs or shipped_costs(self.target)

    def note_choice(self, choice: Choice) -> None:
        """Note for `explain(kernels=True)` which candidate computes the node, and why the others do not."""
        self.builder.result.choices[self.node] = choice

    # --- inputs
    def raw(self, index: int) -> Tensor:
        """Return input `index` as it is: perhaps in another storage order, pending, or known contents without memory.

        Where not even its rank is known, the node is lowered during the run.
        """
        value = self.node.inputs[index]
        assert value is not None, f"{self.node}: input {index} is left out"
        tensor = self.values.tensor(value)
        if not tensor.ranked and tensor.dtype:
            raise Open(value)
        return tensor

    def input(self, index: int, perm: tuple[int, ...] | None = None) -> Tensor:
        """Return input `index` in memory, contiguous, in logical order or that of `perm` (converted once, then shared)."""
        return self.builder.store(self.raw(index), perm)

    def store(self, tensor: Tensor, perm: tuple[int, ...] | None = None) -> Tensor:
        """Return the tensor in memory, contiguous, in logical order or that of `perm` (converted once, then shared)."""
        return self.builder.store(tensor, perm)

    def optional(self, index: int) -> Tensor | None:
        """Return an input as a tensor; None if it is absent."""
        return self.input(index) if self.has(index) else None

    def constant(self, index: int) -> Array | None:
        """Return the array of a constant input (logical order, not to be written to), None when it is computed or left out."""
        value = self.node.inputs[index] if self.has(index) else None
        return None if value is None else self.values.constant(value)

    def read_array(self, index: int) -> Array:
        """Return the array of an input: where it is computed, the node is lowered during the run, for each. To be asked first."""
        array = self.constant(index)
        if array is None:
            value = self.node.inputs[index]
            assert value is not None
            raise Open(value, numbers=True)
        return array

    def contents(self, index: int) -> tuple[Dim, ...]:
        """Return the elements of a small integer input as symbolic integers; ends the segment when only the run tells them."""
        value = self.node.inputs[index]
        assert value is not None
        return self.values.contents(value, self.node)

    def scalar(self, index: int) -> Dim:
        """Return the one element of an input. Raises NodeFailure for more or none."""
        value, contents = self.node.inputs[index], self.contents(index)
        if len(contents) != 1:
            name = "" if value is None else value.name
            came = f"{self.node} (CPUExecutionProvider): {name!r} has {len(contents)} elements, expected one"
            raise NodeFailure(came).about(self.node)
        return contents[0]

    def numbers(self, index: int) -> list[int]:
        """Return the contents as numbers; otherwise like `read_array`."""
        value = self.node.inputs[index]
        assert value is not None
        contents = self.values.inference.of(value).contents
        if contents is not None and all(isinstance(element, int) for element in contents):
            return [element for element in contents if isinstance(element, int)]
        return [int(element) for element in self.read_array(index).reshape(-1)]

    def dim(self, index: int, axis: int) -> int:
        """Return a dimension of input `index` as a number: where it is open, the node is lowered during the run. To be asked first."""
        value = self.node.inputs[index]
        assert value is not None
        dim = self.raw(index).shape[axis]
        if not isinstance(dim, int):
            raise Open(value)
        return dim

    # --- outputs
    def output(self, index: int = 0, perm: tuple[int, ...] | None = None) -> Tensor:
        """Return output `index` with memory of its own, to be written by an emitted kernel, stored in the order `perm`."""
        info = self._infos[index]
        assert info.dtype is not None and info.shape is not None, f"{self.node}: output {index} has no known rank"
        tensor = self.builder.new(info.dtype, info.shape, perm)
        self.set(index, tensor)
        return tensor

    def set(self, index: int, tensor: Tensor) -> None:
        """Set output `index` to `tensor`."""
        value = self.node.outputs[index] if index < len(self.node.outputs) else None
        if value is not None:
            tensor.name = tensor.name or value.name
            self.values.tensors[value] = tensor

    def pass_on(self, tensor: Tensor) -> None:
        """Set output 0 to `tensor` as it is: the output is the input. It is computed first if it is read more than once."""
        value = self.node.outputs[0]
        if value is not None and tensor.pending is not None and self.values.remaining.get(value, 1) != 1:
            self.builder.materialize(tensor)
        self.set(0, tensor)

    def alias(self, tensor: Tensor, index: int = 0) -> None:
        """Set output `index` to the memory of `tensor` under another shape (Reshape, Squeeze, Identity): no work at run time."""
        info = self._infos[index]
        assert info.shape is not None
        self.set(index, self.builder.view(tensor, info.shape))

    def view(self, tensor: Tensor, shape: Shape) -> Tensor:
        """Return the same memory under another shape of as many elements."""
        return self.builder.view(tensor, shape)

    def read_dim(self, dim: Dim, total: Tensor) -> None:
        """Read `dim` of an output, which the shape rule left open, from total[0], between two segments."""
        found = as_symbol(dim)
        assert total.buffer is not None
        if found is not None:
            self.builder.result.items.append(None)
            self.builder.result.sources[found] = SymbolSource(total.buffer, 0, element=True)

    # --- work
    def temporary(self, dtype: DType, shape: Shape) -> Tensor:
        """Return memory for the time from its first to its last use by an emitted kernel."""
        return self.builder.new(dtype, shape)

    def array(self, array: Array) -> Tensor:
        """Return a constant made while lowering (packed weights, tables)."""
        array = np.require(array, requirements="C")
        return Tensor(from_numpy(array.dtype), array.shape, Buffer(array.nbytes, array))

    def table(self, array: Array) -> Tensor:
        """Return a constant made of attributes alone, of whatever size."""
        return self.array(from_attributes(np.require(array, requirements="C")))

    def pack(self, source: Array, form: str, make: Callable[[], Array]) -> Tensor:
        """Return a constant derived from `source`, made once a program: two nodes that pack one weight alike share the result.

        Programs of other sessions share it as well (see `ort_lite.memory.sharing`).
        """
        return self.builder.pack(source, form, lambda: self.array(pack_once(make)))

    def restorable(self, source: Array, restore: Callable[[], Array]) -> None:
        """Allow the array of a constant to be dropped: `restore`, which does not hold it, recreates it from its packed form.

        The recreated array is bit-identical.
        """
        self.builder.result.restorers[id(source)] = restore

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Return the tensor in another element type (made once, then shared), as ONNX Cast."""
        return self.builder.cast(tensor, dtype)

    def emit(
        self,
        kernel: Kernel,
        operands: Sequence[Tensor | None],
        *,
        work: Dim | None = None,
        types: Sequence[str] | None = None,
        inplace: tuple[int, int] | None = None,
        message: Message = "",
        touched: Mapping[str, Extent] = {},
        rounds: Dim = 1,
        slices: int = SLICES,
        over: tuple[int, int] | None = None,
        result: ResultRegion | None = None,
        **named: Any,
    ) -> None:
        """Add an instruction: a call of the kernel with the operands, and with its other parameters by their names.

        work: about how many nanoseconds it takes one thread; large ones are shared (default: a nanosecond an element of the
        last operand). types: pointer types of operands that are left out; those of the others are their own (`tensor.bits` and its
        like read one as another type). inplace: (output, input) operand positions that may be the same memory. message: what a
        failing status means (see `lowered.Message`). touched: what the kernel touches of those operands whose extents it leaves
        to its caller, by the name of the parameter. rounds: how often it is called, once all parts of the call before have ended:
        of a kernel that counts rounds * parts parts. slices: the most parts for each of several threads; 1 if each part computes
        something that others compute as well, SERIAL if there is one part. over: (output, input) operand positions that a
        caller may make the same memory, of a kernel that may then be repeated. result: where that of a kernel lies which ends with an
        activation, its `kind`.
        Raises TypeError for a call that does not fit the kernel; the run fails, or lowering, where the kernel would touch more than an
        operand has.
        """
        apart = result is not None and bool(named["kind"]) and self._activates_apart(kernel, operands, named, result)
        self.builder.emit(
            self.node,
            kernel,
            operands,
            named={**named, "kind": ""} if apart else named,
            work=work,
            types=types,
            inplace=inplace,
            message=message,
            touched=touched,
            rounds=rounds,
            slices=slices,
            over=over,
        )
        if result is not None and apart:
            from ort_lite_cpu.lowering.unfused import activate

            activate(self, result, named)

    def _activates_apart(
        self, kernel: Kernel, operands: Sequence[Tensor | None], named: Mapping[str, Any], result: ResultRegion
    ) -> bool:
        """Return True if an activation is an instruction of its own, since the kernel that has it in its epilogue is missing."""
        if self.builder.all_come:
            return False
        from ort_lite_cpu.lowering.unfused import activates_apart

        return activates_apart(self.builder, kernel, operands, named, result)

    def require(self, condition: Dim, message: str, *numbers: Dim) -> None:
        """Make the run fail with the node's name and `message` for shapes for which `condition` is 0.

        {0}, {1}, ... in the message stand for the values of `numbers`.
        """
        self.builder.require(self.node, condition, message, numbers)

    def agree(self, a: Sequence[Dim], b: Sequence[Dim], message: str) -> None:
        """Require two shapes to be equal. Raises NodeFailure for shapes of two ranks."""
        if len(a) != len(b):
            raise NodeFailure(f"{self.node} (CPUExecutionProvider): {message}: {len(a)} axes against {len(b)}").about(self.node)
        for x, y in zip(a, b, strict=True):
            self.require(equal(x, y), message + ": {0} against {1}", x, y)

    def python(
        self,
        function: Callable[..., Sequence[Any]],
        inputs: Sequence[Tensor | None] | None = None,
        outputs: Sequence[int] | None = None,
    ) -> None:
        """Run as a Python step: `function(*arrays)` returns the outputs.

        By default of all the node's inputs, None for those left out, and for all outputs; else of the tensors `inputs`, for
        the outputs with the numbers `outputs`.
        """
        if inputs is None:
            self.values.host(self.node, function, python=True)
            return
        indices = range(len(self.node.outputs)) if outputs is None else outputs
        infos = [self.info(k) if self.wants(k) else None for k in indices]
        for k, tensor in zip(indices, self.builder.step(self.node, function, inputs, infos), strict=True):
            if tensor is not None:
                self.set(k, tensor)
