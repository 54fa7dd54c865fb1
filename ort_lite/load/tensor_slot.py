"""TensorSlot: a tensor of a model, as passed to callbacks of `load` and returned by `ort_lite.model_tensors`."""

from collections.abc import Callable

from ort_lite.dtypes import Array
from ort_lite.load.spans import ByteSpan, span_of


class TensorSlot:
    """A place in a model that holds a tensor: an initialiser, or a tensor in an attribute. `array` can be set."""

    __slots__ = ("_get", "_set", "graph", "name")

    def __init__(self, name: str, graph: str, get: Callable[[], Array], set_: Callable[[Array], None]) -> None:
        """`name` is the initialiser's, or "node.attribute"; `graph` is the name of its graph."""
        self.name, self.graph, self._get, self._set = name, graph, get, set_

    @property
    def array(self) -> Array:
        """Return the tensor's elements as an array."""
        return self._get()

    @array.setter
    def array(self, array: Array) -> None:
        self._set(array)

    @property
    def span(self) -> ByteSpan | None:
        """Return the span of the tensor's raw bytes; None if it has none (`span_of`)."""
        return span_of(self.array)

    def __repr__(self) -> str:
        array = self.array
        return f"TensorSlot({self.name!r}: {array.dtype}{list(array.shape)})"
