"""SessionIOBinding: an IOBinding with the arguments of onnxruntime's native class, created from `session._sess`."""

from collections.abc import Sequence
from typing import Any

from ort_lite.compat.io_binding import IOBinding
from ort_lite.compat.ort_value_vector import OrtValueVector
from ort_lite.tensors.device_tensor import parse_device


class SessionIOBinding:
    """A binding with the native class's arguments. Other members are those of IOBinding."""

    def __init__(self, session: Any) -> None:
        """Create a binding for an InferenceSession or its `_sess`."""
        self._binding = IOBinding(getattr(session, "session", session))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"the binding has no {name!r}")
        return getattr(self._binding, name)

    def bind_input(
        self, name: str, device_or_array: Any, element_type: Any = None, shape: Sequence[int] | None = None, buffer_ptr: int = 0
    ) -> None:
        """Bind an input to an array, or to memory at an address on an OrtDevice."""
        if shape is None:
            self._binding.bind_cpu_input(name, device_or_array)
            return
        device = parse_device(device_or_array)
        self._binding.bind_input(name, device.kind, device.id, element_type, shape, buffer_ptr)

    def bind_output(
        self,
        name: str,
        device: Any,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to an OrtDevice, or to memory at an address there."""
        there = parse_device(device)
        self._binding.bind_output(name, there.kind, there.id, element_type, shape, buffer_ptr)

    def get_outputs(self) -> OrtValueVector:
        """Return the outputs of the last run, as an OrtValueVector."""
        return self._binding.get_outputs_as_ortvaluevector()
