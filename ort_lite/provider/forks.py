"""The process to which an instance of a provider belongs, if its device does not outlive a fork."""

import os
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.provider.provider import Allocator, ExecutionProvider


def is_lost(provider: Any) -> bool:
    """Return True for an instance of a parent process whose device does not outlive a fork. 50 ns, 0.1 us for such a class."""
    return not getattr(provider, "outlives_fork", True) and getattr(provider, "_process", None) not in (None, os.getpid())


def check_process(provider: Any) -> None:
    """Raise ProviderError for an instance of a parent process whose device does not outlive a fork."""
    if is_lost(provider):
        raise ProviderError(
            f"{provider.name}: its device does not outlive a fork. This instance belongs to process {provider._process}, and this is "
            f"process {os.getpid()}: create sessions and OrtValues after the fork, or start processes by 'spawn'"
        ).about(provider=provider.name)


class ProcessMemory:
    """An allocator whose memory is not freed in a forked child, where its device is lost."""

    def __init__(self, memory: Allocator, provider: ExecutionProvider) -> None:
        self.device, self._memory, self._provider = memory.device, memory, provider

    def allocate(self, nbytes: int) -> Any:
        """Allocate a handle. Raises ProviderError in a forked child."""
        check_process(self._provider)
        return self._memory.allocate(nbytes)

    def statistics(self) -> Any:
        """Return the statistics of the allocator, or none if it has none."""
        return getattr(self._memory, "statistics", dict)()

    def free(self, handle: Any) -> None:
        """Free a handle; do nothing in a forked child."""
        if not is_lost(self._provider):
            self._memory.free(handle)
