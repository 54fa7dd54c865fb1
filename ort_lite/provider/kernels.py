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

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ort_lite.graph.graph import Node, Value
from ort_lite.provider.kernel_chain import KernelChain
from ort_lite.provider.kernel_registry import Kernel, KernelRegistration, KernelRegistry, Types
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Partition, Rejection

__all__ = ["Kernel", "KernelProvider", "KernelRegistration", "KernelRegistry", "Types"]


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
        pairs = self.kernels.registrations(partition)
        on_device = {value for node, one in pairs for k, value in enumerate(node.inputs) if k not in one.host_inputs}
        made = {value for node, one in pairs for k, value in enumerate(node.outputs) if k in one.host_outputs}
        return [v for v in partition.inputs if v not in on_device] + [v for v in partition.outputs if v in made]

    def compile(self, partitions: Sequence[Partition]) -> list[KernelChain]:
        """Return a KernelChain per partition."""
        return [KernelChain(partition, self, self.kernels.registrations(partition)) for partition in partitions]
