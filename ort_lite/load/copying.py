"""Deep copies and pickles of a Model. Their tensors own their bytes, even if the model borrows some."""

from typing import TYPE_CHECKING, Any

from ort_lite.graph.model import Model, restore_model
from ort_lite.load.spans import move_to_span

if TYPE_CHECKING:
    from ort_lite.graph.flat import GraphTables


def reduce_model(model: Model) -> tuple[Any, ...]:
    """Reduce a model for `copyreg` like `Model.__reduce__`, but restore its tensors in spans."""
    _, parts = model.__reduce__()
    return _owning, parts


def _owning(tables: "GraphTables", *parts: Any) -> Model:
    return restore_model(tables.replace(arrays=[move_to_span(array) for array in tables.arrays]), *parts)
