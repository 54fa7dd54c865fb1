"""Types of values: tensors, sequences, optionals, maps."""

from ort_lite.dtypes import DType, ort_name
from ort_lite.record import Record
from ort_lite.shapes.dims import Shape


class TensorType(Record):
    """Element type and shape; `shape` is None where not even the rank is known."""

    dtype: DType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape is not None else f"{self.dtype}[...]"


class SparseTensorType(TensorType):
    """The type of an input that the model declares as a sparse tensor. Its values are dense from the feed on."""

    def __str__(self) -> str:
        return f"sparse {super().__str__()}"


class SequenceType(Record):
    """The type of a list of values of one type."""

    element: "Type"

    def __str__(self) -> str:
        return f"seq({self.element})"


class OptionalType(Record):
    """The type of a value that may be absent."""

    element: "Type"

    def __str__(self) -> str:
        return f"optional({self.element})"


class MapType(Record):
    """The type of a map from keys to values."""

    key: DType
    value: "Type"

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


Type = TensorType | SequenceType | OptionalType | MapType


def type_name(type_: Type | None) -> str:
    """onnxruntime's spelling: "tensor(float)", "seq(map(int64,tensor(float)))", "sparse_tensor(float)"."""
    match type_:
        case SparseTensorType(dtype, _):
            return f"sparse_{ort_name(dtype)}"
        case TensorType(dtype, _):
            return ort_name(dtype)
        case SequenceType(element):
            return f"seq({type_name(element)})"
        case OptionalType(element):
            return f"optional({type_name(element)})"
        case MapType(key, value):
            return f"map({ort_name(key)[7:-1]},{type_name(value)})"
    return "unknown"
