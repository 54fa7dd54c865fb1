"""Budgets of providers: the nodes and bytes that each is granted or has room for."""

from collections.abc import Collection, Sequence

from ort_lite.dtypes import itemsize
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.types import TensorType
from ort_lite.provider.provider import Resource
from ort_lite.shapes.dims import product
from ort_lite.shapes.expr import Dim


class Budgets:
    """The remaining room of each provider while nodes are assigned. `resources` are the limits, None for no limit."""

    def __init__(self, resources: Sequence[Resource | None]) -> None:
        self._resources = resources
        self._budgets: dict[int, _Budget] = {}

    def refill(self) -> None:
        """Give every provider its whole budget again."""
        self._budgets = {k: _Budget(limit) for k, limit in enumerate(self._resources) if limit is not None}

    def limits(self, index: int) -> bool:
        """Return whether the provider has a budget."""
        return index in self._budgets

    def take(self, index: int, nodes: Collection[Node]) -> str | None:
        """Take from the provider's budget what the nodes need. Return why they do not fit, or None."""
        budget = self._budgets.get(index)
        return None if budget is None else budget.take(nodes)

    def give_back(self, index: int, nodes: Collection[Node]) -> None:
        """Return to the provider's budget what `take` took for these nodes."""
        if index in self._budgets:
            self._budgets[index].give_back(nodes)


class _Budget:
    """The rest of a Resource. A constant counts once."""

    def __init__(self, limit: Resource) -> None:
        self._limit = limit
        self._nodes = self._outputs = self._constants = 0
        self._readers: dict[Value, int] = {}

    def take(self, nodes: Collection[Node]) -> str | None:
        limit, constants, outputs = self._limit, _constants(nodes), _outputs(nodes)
        new = sum(value.constant.nbytes for value in constants if value.constant is not None and value not in self._readers)
        used = self._outputs + self._constants
        if limit.nodes is not None and self._nodes + len(nodes) > limit.nodes:
            return f"over budget: {self._nodes} of {limit.nodes} nodes are taken"
        if limit.nbytes is not None and used + outputs + new > limit.nbytes:
            return f"over budget: {outputs + new} bytes, {limit.nbytes - used} of {limit.nbytes} are left"
        self._nodes, self._outputs, self._constants = self._nodes + len(nodes), self._outputs + outputs, self._constants + new
        for value in constants:
            self._readers[value] = self._readers.get(value, 0) + 1
        return None

    def give_back(self, nodes: Collection[Node]) -> None:
        self._nodes, self._outputs = self._nodes - len(nodes), self._outputs - _outputs(nodes)
        for value in _constants(nodes):
            self._readers[value] -= 1
            if not self._readers[value] and value.constant is not None:
                del self._readers[value]
                self._constants -= value.constant.nbytes


def _constants(nodes: Collection[Node]) -> set[Value]:
    return {value for node in nodes for value in node.inputs if value is not None and value.constant is not None}


def _outputs(nodes: Collection[Node]) -> int:
    sizes = (nbytes(value) for node in nodes for value in node.outputs if value is not None)
    return sum(size for size in sizes if isinstance(size, int))


def nbytes(value: Value) -> Dim | None:
    """Return the bytes of a tensor, symbolic where its shape is; None where type or rank is unknown, and for strings."""
    if not isinstance(value.type, TensorType) or value.type.shape is None or not itemsize(value.type.dtype):
        return None
    return product(value.type.shape) * itemsize(value.type.dtype)
