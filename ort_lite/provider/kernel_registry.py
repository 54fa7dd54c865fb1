"""Kernels by operator, with the versions and types that they are correct for."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Node
from ort_lite.inference.schema import NHWC_DOMAIN
from ort_lite.provider.provider import Partition, Rejection
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

    def registrations(self, partition: Partition) -> list[tuple[Node, KernelRegistration]]:
        """Return the kernel of each node. Raises ProviderError for a node without one."""
        pairs = []
        for node in partition.nodes:
            found = self.find(node)
            if isinstance(found, Rejection):
                raise ProviderError(f"{partition.name} holds {node}, which no kernel fits: {found}")
            pairs.append((node, found))
        return pairs

    def _other(self, node: Node) -> str:
        """Return a hint for an operator that has a kernel only in the channels-last form."""
        if node.domain or (NHWC_DOMAIN, node.op_type) not in self._kernels:
            return ""
        return f", which is asked about before {NHWC_DOMAIN}.{node.op_type}: register the ordinary form too"
