"""Optional members of a DataTransfer and of a value on a device, each defined by a Protocol.

A class that has the method has the ability; nothing is registered. `memory` is a handle of `value.nbytes` bytes from the
`allocator()` of the provider that reads the value.
"""

from typing import Any, Protocol

from ort_lite.provider.notifications import SyncNotification
from ort_lite.provider.provider import Device


class CopiesInto(Protocol):
    """A transfer that copies into memory of an allocator.

    `copy_into` returns an object of its own that supports weak references. When that object is gone, the handle returns to the
    allocator.
    """

    def copy_into(self, value: Any, source: Device, destination: Device, memory: Any) -> Any:
        """Copy a value into `memory`, a handle of the allocator."""


class CopiesAsync(Protocol):
    """A transfer with non-blocking copies.

    A session starts such a copy as soon as the value exists and waits before the first reader, so that the partitions in
    between overlap with it. Copies block where a partition has a fallback provider (`on_run_error`).
    """

    def copy_async(self, value: Any, source: Device, destination: Device, memory: Any | None) -> tuple[Any, SyncNotification]:
        """Start a copy. Return the future value and the notification of its completion.

        Until the wait is over, nobody reads the value and the source stays alive. `memory` is None if the reader has no
        allocator. A call that raises must not have started anything.
        """


class Overwrites(Protocol):
    """A transfer that can overwrite a value, which updates an OrtValue on a device in place.

    Without it, the OrtValue refers to a new value after the update.
    """

    def overwrite(self, value: Any, source: Device, destination: Device, target: Any) -> None:
        """Copy `value` over the elements of `target`, a value of the same type and shape on `destination`."""


class TakesAddresses(Protocol):
    """A transfer that wraps device memory of the caller, for `IOBinding.bind_input` and `bind_output`."""

    def at_address(self, address: int, dtype: Any, shape: tuple[int, ...], device: Device) -> Any:
        """Return a value over memory at an address of the device. `dtype` is a NumPy type."""


class HasShape(Protocol):
    """A value that knows its shape, which is needed to keep it on its device if the graph does not state the shape."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""


class HasAddress(Protocol):
    """A value that knows the address of its first element."""

    @property
    def data_ptr(self) -> int:
        """The address of the first element."""
