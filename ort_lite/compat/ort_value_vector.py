"""OrtValueVector: a list of OrtValues with the methods of onnxruntime's class."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ort_lite.compat.ort_value import OrtValue, at_address
from ort_lite.errors import InvalidType


class OrtValueVector(list[OrtValue]):
    """A list of OrtValues. Other elements raise InvalidType."""

    def __init__(self, values: Iterable[OrtValue] = ()) -> None:
        super().__init__(map(_value, values))

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Append an OrtValue or a DLPack object. `is_bool_tensor` reads the object's bytes as bool."""
        if not isinstance(value, OrtValue) and (hasattr(value, "__dlpack__") or type(value).__name__ == "PyCapsule"):
            value = OrtValue.from_dlpack(value, is_bool_tensor)
        self.append(_value(value))

    def push_back_batch(
        self,
        tensors: Sequence[Any],
        data_ptrs: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[Any],
    ) -> None:
        """Append tensors over CPU memory at addresses.

        The caller keeps that memory, as `tensors`, while they are used.
        """
        if not len(tensors) == len(data_ptrs) == len(element_types) == len(shapes) == len(devices):
            raise InvalidType("push_back_batch: got lists of different lengths, expected one entry for each tensor")
        self.extend(map(at_address, element_types, shapes, data_ptrs))

    def reserve(self, count: int) -> None:
        """Do nothing. Accepted for compatibility: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Do nothing. Accepted for compatibility."""

    def bool_tensor_indices(self) -> list[int]:
        """Return the positions of bool tensors, which are uint8 in a DLPack capsule."""
        return [index for index, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def element_type_at(self, idx: int) -> int:
        """Return the TensorProto.DataType of an element."""
        return self[idx].element_type()

    def dlpack_at(self, idx: int) -> Any:
        """Return a DLPack capsule of an element."""
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None = None) -> list[Any]:
        """Return a DLPack capsule per element, converted by `to_tensor` (such as `torch.utils.dlpack.from_dlpack`)."""
        capsules = (value.to_dlpack() for value in self)
        return list(capsules) if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


def _value(value: Any) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise InvalidType(f"an OrtValueVector got {type(value).__name__}, expected an OrtValue")
    return value
