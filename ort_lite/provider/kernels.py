"""Providers made of kernels: one Python function per operator, and nothing to compile.

    kernels = KernelRegistry()

    @kernels.kernel("Elu", since=6, types={"float32"})
    def elu(node):
        alpha = node.attr("alpha", 1.0)
        return lambda x: np.where(x < 0, alpha * np.expm1(x), x)

    kernels.add("Relu", lambda x: np.maximum(x, 0), types={"float32"})

    class MyExecutionProvider(KernelProvider):
        name = "MyExecutionProvider"
        kernels = kernels

A kernel takes the node's inputs in the memory of the provider's device (None for an omitted input) and returns its output or a
tuple of outputs. It must not write to an input unless its registration says so.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Node, Value
from ort_lite.inference.schema import NHWC_DOMAIN
from ort_lite.provider.current import run_events
from ort_lite.provider.provider import CPU, Capability, DataTransfer, Device, ExecutionProvider, GraphView, Partition, Rejection
from ort_lite.record import Record, field

Kernel = Callable[..., Any]
Types = Collection[str]


class KernelRegistration(Record):
    """A kernel with its operator, versions and types.

    Fields:
        make: a function that returns the kernel of a node.
        types: the allowed element types of all tensors of the node; None allows any.
        inputs, outputs: the allowed types by position, where they differ from `types`.
        host_inputs, host_outputs: positions of NumPy arrays on the CPU, whatever the provider's device: shapes, axes, sizes.
        aliases: outputs that are a view of an input (output -> input).
        inplace: outputs that may use an input's memory (output -> input). The kernel then gets that input as `out=` if no one
            reads it afterwards and its type and shape are those of the output.
        declines: a function that returns another reason why the kernel does not fit, such as an attribute or a rank; None: it
            fits.
    """

    op_type: str
    make: Callable[[Node], Kernel]
    domain: str = ""
    since: int = 1
    until: int | None = None
    types: Types | None = None
    inputs: Sequence[Types | None] = ()
    outputs: Sequence[Types | None] = ()
    host_inputs: Collection[int] = ()
    host_outputs: Collection[int] = ()
    aliases: Mapping[int, int] = field(default_factory=dict)
    inplace: Mapping[int, int] = field(default_factory=dict)
    declines: Callable[[Node], str | None] | None = None

    def misfit(self, node: Node) -> Rejection | None:
        """Return the reason why the kernel cannot run the node; None if it can."""
        if node.version < self.since or (self.until is not None and node.version > self.until):
            some = f"{self.since} to {self.until}" if self.until is not None else f"{self.since} and newer"
            return Rejection(node, "opset", f"{node.op_type} of opset {node.version}, takes {some}")
        for values, constraints in ((node.inputs, self.inputs), (node.outputs, self.outputs)):
            for k, value in enumerate(values):
                given = constraints[k] if k < len(constraints) else None
                allowed = self.types if given is None else given
                if value is not None and allowed is not None and value.dtype not in allowed:
                    takes = ", ".join(sorted(allowed))
                    return Rejection(node, "type", f"{value.name!r} is {value.dtype or 'of unknown type'}, takes {takes}")
        why = None if self.declines is None else self.declines(node)
        return None if why is None else Rejection(node, "form", why)


class KernelRegistry:
    """Kernels by operator. If several kernels fit a node, the one that was added first is used."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, str], list[KernelRegistration]] = {}

    def add(
        self,
        op_type: str,
        function: Kernel,
        *,
        domain: str = "",
        since: int = 1,
        until: int | None = None,
        types: Types | None = None,
        inputs: Sequence[Types | None] = (),
        outputs: Sequence[Types | None] = (),
        host_inputs: Collection[int] = (),
        host_outputs: Collection[int] = (),
        aliases: Mapping[int, int] | None = None,
        inplace: Mapping[int, int] | None = None,
        declines: Callable[[Node], str | None] | None = None,
    ) -> None:
        """Add a kernel that is the same for all nodes. KernelRegistration describes the keywords."""
        register = self.kernel(
            op_type,
            domain=domain,
            since=since,
            until=until,
            types=types,
            inputs=inputs,
            outputs=outputs,
            host_inputs=host_inputs,
            host_outputs=host_outputs,
            aliases=aliases,
            inplace=inplace,
            declines=declines,
        )
        register(lambda node: function)

    def kernel(
        self,
        op_type: str,
        *,
        domain: str = "",
        since: int = 1,
        until: int | None = None,
        types: Types | None = None,
        inputs: Sequence[Types | None] = (),
        outputs: Sequence[Types | None] = (),
        host_inputs: Collection[int] = (),
        host_outputs: Collection[int] = (),
        aliases: Mapping[int, int] | None = None,
        inplace: Mapping[int, int] | None = None,
        declines: Callable[[Node], str | None] | None = None,
    ) -> Callable[[Callable[[Node], Kernel]], Callable[[Node], Kernel]]:
        """Register the decorated function, which returns the kernel of a node. KernelRegistration describes the keywords."""

        def decorate(make: Callable[[Node], Kernel]) -> Callable[[Node], Kernel]:
            registration = KernelRegistration(
                op_type,
                make,
                domain,
                since,
                until,
                types,
                inputs,
                outputs,
                host_inputs,
                host_outputs,
                aliases or {},
                inplace or {},
                declines,
            )
            self.register(registration)
            return make

        return decorate

    def register(self, registration: KernelRegistration) -> None:
        """Add a kernel for an operator and a range of versions."""
        self._kernels.setdefault((registration.domain, registration.op_type), []).append(registration)

    def op_types(self, domain: str = "") -> list[str]:
        """Return the operators of a domain that have kernels."""
        return sorted({op_type for place, op_type in self._kernels if place == domain})

    def has_type(self, node: Node, dtype: str) -> bool:
        """Return True if some kernel for the node's operator accepts tensors of that type."""
        return any(one.types is None or dtype in one.types for one in self._kernels.get((node.domain, node.op_type), ()))

    def find(self, node: Node) -> KernelRegistration | Rejection:
        """Return the kernel for a node, or a Rejection: of several misfits, the last one."""
        answer: Rejection | None = None
        for registration in self._kernels.get((node.domain, node.op_type), ()):
            answer = registration.misfit(node)
            if answer is None:
                return registration
        return answer or Rejection(
            node, "operator", f"no kernel for {node.domain or 'ai.onnx'}.{node.op_type}{self._other(node)}"
        )

    def _other(self, node: Node) -> str:
        """Return a hint for an operator that has a kernel only in the channels-last form."""
        if node.domain or (NHWC_DOMAIN, node.op_type) not in self._kernels:
            return ""
        return f", which is asked about before {NHWC_DOMAIN}.{node.op_type}: register the ordinary form too"


class KernelProvider(ExecutionProvider):
    """A provider that runs every node that fits one of its `kernels`, one kernel after the other."""

    kernels: ClassVar[KernelRegistry]

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield a Capability or a Rejection for each node."""
        for node in graph:
            found = self.kernels.find(node)
            yield found if isinstance(found, Rejection) else Capability([node])

    def supports_type(self, node: Node, dtype: str) -> bool:
        """Return True if a kernel of the node's operator accepts this element type."""
        return self.kernels.has_type(node, dtype)

    def host_values(self, partition: Partition) -> list[Value]:
        """Return the inputs that kernels read only on the CPU, and the outputs that they compute there.

        There are none for a class with a `compile` of its own.
        """
        if type(self).compile is not KernelProvider.compile:
            return []
        reads, made = _Sides(), _Sides()
        for node, one in _registrations(partition, self.kernels):
            reads.add(node.inputs, one.host_inputs)
            made.add(node.outputs, one.host_outputs)
        inputs = [value for value in partition.inputs if value not in reads.device]
        return inputs + [value for value in partition.outputs if value in made.host]

    def compile(self, partitions: Sequence[Partition]) -> list["KernelChain"]:
        """Return a KernelChain per partition."""
        return [KernelChain(partition, self) for partition in partitions]


class _Sides:
    """Values by the side that they are read or computed on: the device or the host."""

    def __init__(self) -> None:
        self.device: set[Value] = set()
        self.host: set[Value] = set()

    def add(self, values: Sequence[Value | None], host: Collection[int]) -> None:
        for k, value in enumerate(values):
            if value is not None:
                (self.host if k in host else self.device).add(value)


class _Step(Record):
    """One kernel call. The kernel may write to input `out`; values in `dead` have no later reader."""

    node: Node
    kernel: Kernel
    host_inputs: frozenset[int]
    host_outputs: frozenset[int]
    out: int | None
    dead: tuple[Value, ...]


class _Values:
    """The values of a call, on the device and on the host. A value is copied once, when the first kernel reads it elsewhere."""

    def __init__(self, chain: "KernelChain", device: dict[Value, Any], host: dict[Value, Any]) -> None:
        self._chain, self._device = chain, device
        self._host = device if chain.device == CPU else host

    def read(self, value: Value | None, host: bool) -> Any:
        if value is None:
            return None
        here, there = (self._host, self._device) if host else (self._device, self._host)
        if value not in here:
            here[value] = self._chain.copied(there[value], CPU if host else self._chain.device)
        return here[value]

    def write(self, value: Value | None, x: Any, host: bool) -> None:
        if value is not None:
            (self._host if host else self._device)[value] = x

    def drop(self, value: Value) -> None:
        self._device.pop(value, None)
        self._host.pop(value, None)


class KernelChain:
    """A compiled partition that calls kernels in order. It keeps no state between calls."""

    def __init__(self, partition: Partition, provider: KernelProvider) -> None:
        self._partition, self.device = partition, provider.device
        self._transfer: DataTransfer | None = provider.data_transfer()
        self._steps, self._shared = _steps(partition, provider.kernels)
        reads = _Sides()
        for step in self._steps:
            reads.add(step.node.inputs, step.host_inputs if self.device != CPU else ())
        self._constants = {v: self.copied(v.constant, self.device) for v in partition.constants if v in reads.device}
        self._host_constants = {v: v.constant for v in partition.constants if v in reads.host}

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        host = self._partition.host_values if self.device != CPU else ()
        values = _Values(self, dict(self._constants), dict(self._host_constants))
        for value, x in zip(self._partition.inputs, inputs, strict=True):
            values.write(value, x, value in host)
        events = run_events()
        for step in self._steps:
            begin = 0 if events is None else perf_counter_ns()
            operands = [values.read(value, k in step.host_inputs) for k, value in enumerate(step.node.inputs)]
            results = step.kernel(*operands) if step.out is None else step.kernel(*operands, out=operands[step.out])
            for k, (value, result) in enumerate(zip(step.node.outputs, _several(results, step.node), strict=False)):
                array = np.asarray(result) if isinstance(result, np.generic) else result  # NumPy returns scalars for rank 0
                values.write(value, array, k in step.host_outputs)
            if events is not None:
                events.kernel(step.node.name, begin, perf_counter_ns(), {"op_name": step.node.op_type})
            for value in step.dead:
                values.drop(value)
        return [self._output(value, values.read(value, value in host)) for value in self._partition.outputs]

    def facts(self) -> dict[str, int | str]:
        """Return the number of kernels."""
        return {"kernels": len(self._steps)}

    def copied(self, x: Any, device: Device) -> Any:
        """Return a copy of a value on the other device: the host or the provider's own."""
        if x is None or self._transfer is None:
            return x
        return self._transfer.copy(x, self.device if device == CPU else CPU, device)

    def _output(self, value: Value, result: Any) -> Any:
        """Return a contiguous array that the caller owns, if it is one: NumPy kernels may return views."""
        if self.device != CPU and value not in self._partition.host_values:
            return result
        if value in self._shared:
            return np.array(result)
        return np.array(result, order="C") if isinstance(result, np.ndarray) and not result.flags.c_contiguous else result


def _several(results: Any, node: Node) -> Sequence[Any]:
    found = results if isinstance(results, tuple) else (results,)
    wanted = sum(value is not None for value in node.outputs)
    if len(found) < wanted:
        raise ProviderError(f"{node}: the kernel returned {len(found)} of {wanted} outputs").about(node)
    return found


def _registrations(partition: Partition, kernels: KernelRegistry) -> list[tuple[Node, KernelRegistration]]:
    """Return the kernel of each node. Raises ProviderError for a node without one."""
    found = [(node, kernels.find(node)) for node in partition.nodes]
    pairs = [(node, one) for node, one in found if isinstance(one, KernelRegistration)]
    without = [(node, one) for node, one in found if isinstance(one, Rejection)]
    if without:
        raise ProviderError(f"{partition.name} holds {without[0][0]}, which no kernel fits: {without[0][1]}")
    return pairs


def _steps(partition: Partition, kernels: KernelRegistry) -> tuple[list[_Step], frozenset[Value]]:
    """Return the kernel calls, and the outputs that would share memory with an input, a constant or another output."""
    pairs = _registrations(partition, kernels)
    memory = _Memory(partition, pairs)
    kept = {*partition.inputs, *partition.constants, *partition.outputs}
    dead: dict[int, list[Value]] = {}
    for value, end in memory.last.items():
        if value not in kept:
            dead.setdefault(end, []).append(value)
    steps = []
    for k, (node, one) in enumerate(pairs):
        out = memory.overwritten(k, node, one)
        host = frozenset(one.host_inputs), frozenset(one.host_outputs)
        steps.append(_Step(node, one.make(node), *host, out, tuple(dead.get(k, ()))))
    return steps, memory.outputs_in_shared_memory()


class _Memory:
    """The groups of values that share memory through aliases and in-place kernels, with their last readers."""

    def __init__(self, partition: Partition, pairs: Sequence[tuple[Node, KernelRegistration]]) -> None:
        self._partition = partition
        self._root: dict[Value, Value] = {}
        self.last: dict[Value, int] = {}
        for k, (node, one) in enumerate(pairs):
            self.last.update((value, k) for value in (*node.inputs, *node.outputs) if value is not None)
            for output, source in one.aliases.items():
                if output < len(node.outputs) and source < len(node.inputs):
                    self._join(node.outputs[output], node.inputs[source])

    def root(self, value: Value) -> Value:
        while value in self._root:
            value = self._root[value]
        return value

    def _join(self, value: Value | None, to: Value | None) -> None:
        if value is not None and to is not None and self.root(value) is not self.root(to):
            self._root[self.root(value)] = self.root(to)

    def _members(self, value: Value) -> list[Value]:
        root = self.root(value)
        return [other for other in self.last if self.root(other) is root]

    def overwritten(self, k: int, node: Node, one: KernelRegistration) -> int | None:
        """Return the input whose memory the kernel of node `k` may use: one that nothing reads later, with a matching type."""
        for output, source in one.inplace.items():
            a = node.outputs[output] if output < len(node.outputs) else None
            b = node.inputs[source] if source < len(node.inputs) else None
            if a is None or b is None or a.type is None or a.type != b.type or a.shape is None:
                continue
            members = self._members(b)
            given = {*self._partition.inputs, *self._partition.constants, *self._partition.outputs}
            reads = [value for value in node.inputs if value is not None and self.root(value) is self.root(b)]
            if len(reads) == 1 and not given & set(members) and all(self.last[value] <= k for value in members):
                self._join(a, b)
                return source
        return None

    def outputs_in_shared_memory(self) -> frozenset[Value]:
        """Return the partition's outputs that share memory with an input, a constant or an earlier output."""
        taken = {self.root(value) for value in (*self._partition.inputs, *self._partition.constants)}
        found = set()
        for value in self._partition.outputs:
            if self.root(value) in taken:
                found.add(value)
            taken.add(self.root(value))
        return frozenset(found)
