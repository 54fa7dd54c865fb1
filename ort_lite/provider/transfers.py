"""Optional members of a DataTransfer and of a value on a device, each a Protocol of its own.

A class that has the method has what it stands for; nothing is registered. A `memory` is a handle of `value.nbytes` bytes from the
`allocator()` of the provider that reads the value.
"""

from typing import Any, Protocol

from ort_lite.provider.provider import Device


class CopiesInto(Protocol):
    """A transfer that copies into `memory`. `copy_into` returns an object of its own that a weak reference may point to; when
    it is gone, the handle goes back to the allocator.
    """

    def copy_into(self, value: Any, source: Device, destination: Device, memory: Any) -> Any:
        """Copy a value into `memory`, a handle of the allocator."""


class SyncNotification(Protocol):
    """Work that was begun on a device. `wait_on_host` returns when it is done, any number of times, and raises what went wrong."""

    def wait_on_host(self) -> None:
        """Block until the copy is done."""


class CopiesAsync(Protocol):
    """Begins a copy and returns what the value will be, and who says when it is. Nobody looks at the value, and nothing that it is
    made of goes away, before the wait is over. `memory` is None where the reader has no allocator. One that raises has begun nothing.

    A session begins such copies as soon as the value is there and waits before the first reader, so that partitions between the
    two run beside them. Not where a partition has a next provider (`on_run_error`): copies block there.
    """

    def copy_async(self, value: Any, source: Device, destination: Device, memory: Any | None) -> tuple[Any, SyncNotification]:
        """Begin a copy, into `memory` if it is not None, and return the copy and its notification."""


class Overwrites(Protocol):
    """Writes the elements of `value` over those of `target`, a value of the same type and shape on `destination`: what an OrtValue
    on a device is updated by. Without it, the OrtValue shows another value from then on.
    """

    def overwrite(self, value: Any, source: Device, destination: Device, target: Any) -> None:
        """Copy a value over `target`, a value of the same type and shape."""


class TakesAddresses(Protocol):
    """A value over memory of the device that the caller keeps where it is, for `IOBinding.bind_input` and `bind_output`. `dtype` is
    NumPy's.
    """

    def at_address(self, address: int, dtype: Any, shape: tuple[int, ...], device: Device) -> Any:
        """Return a value over memory at an address of the device."""


class HasShape(Protocol):
    """A value that may stay on its device between runs: its sizes, where the graph does not tell them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""


class HasAddress(Protocol):
    """A value that tells where its first element is."""

    @property
    def data_ptr(self) -> int:
        """Return the address of the first element."""
