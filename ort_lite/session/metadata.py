"""NodeArg and ModelMetadata: the description of a session's model, with onnxruntime's names."""

from collections.abc import Mapping, Sequence

from ort_lite.graph.graph import Value
from ort_lite.graph.model import Model
from ort_lite.graph.types import TensorType, Type, type_name
from ort_lite.record import Record, field


class NodeArg(Record):
    """An input or output. `type` is a string such as "tensor(float)" or "seq(tensor(int64))".

    `shape` holds an int for a fixed dimension, a str for a named one and None for an unnamed one. As in onnxruntime, it is []
    if the rank is unknown.
    """

    name: str
    type: str
    shape: list[int | str | None]


class ModelMetadata(Record):
    """The metadata of a model. `version` is the model's own version; `custom_metadata_map` holds its metadata_props."""

    custom_metadata_map: dict[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


def metadata(model: Model) -> ModelMetadata:
    """Return the metadata of a model."""
    return ModelMetadata(
        custom_metadata_map=dict(model.metadata_props),
        description=model.doc_string,
        domain=model.domain,
        graph_description=model.graph.doc_string,
        graph_name=model.graph.name,
        producer_name=model.producer_name,
        version=model.model_version,
    )


def node_args(values: Sequence[Value], unnamed: Mapping[str, str]) -> list[NodeArg]:
    """Describe inputs or outputs.

    `unnamed` maps the symbols that the loader invented for unnamed dimensions to their spelling in the file: "", "?" or "None".
    """
    return [node_arg(value.name, value.type, unnamed) for value in values]


def node_arg(name: str, type_: Type | None, unnamed: Mapping[str, str]) -> NodeArg:
    """Describe one input or output as onnxruntime does."""
    return NodeArg(name, type_name(type_), _shape(type_, unnamed))


_MOST = 4
"""The number of inputs or outputs that a summary lists."""


def summarize(args: Sequence[NodeArg]) -> str:
    """Return names, types and shapes in one line, "x tensor(float)[N, 3]"; of many, the first ones and how many follow."""
    shown = [f"{arg.name} {arg.type}{_dims(arg.shape) if arg.type.startswith('tensor') else ''}" for arg in args[:_MOST]]
    more = [f"{len(args) - _MOST} more"] if len(args) > _MOST else []
    return ", ".join([*shown, *more]) or "none"


def _dims(shape: Sequence[int | str | None]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"


def _shape(type_: Type | None, unnamed: Mapping[str, str]) -> list[int | str | None]:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return []
    return [dim if isinstance(dim, int) else unnamed.get(str(dim), str(dim)) or None for dim in type_.shape]
