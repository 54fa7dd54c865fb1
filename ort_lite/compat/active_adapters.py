"""The part of RunOptions that adds the parameters of adapters to what a run is fed."""

from collections.abc import Mapping
from typing import Any, Protocol

from ort_lite.errors import InvalidArgument


class Adapter(Protocol):
    """What `LoraAdapter` is: parameters by name."""

    @property
    def parameters(self) -> Mapping[str, Any]: ...


class TakesAdapters:
    """Parameters of adapters are fed by their names beside what the caller feeds."""

    _adapters: tuple[Adapter, ...] = ()

    def add_active_adapter(self, adapter: Adapter) -> None:
        """Runs with these options are fed the adapter's parameters too: inputs, or initialisers that a feed may replace.

        Raises InvalidArgument for what is no LoraAdapter, or one into which nothing was loaded.
        """
        if not hasattr(adapter, "parameters"):
            raise InvalidArgument(f"add_active_adapter: got {adapter!r}, expected a LoraAdapter")
        _ = adapter.parameters
        self._adapters = (*self._adapters, adapter)

    @property
    def has_adapters(self) -> bool:
        return bool(self._adapters)

    def adapted(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """The feed with the parameters of the adapters. Raises InvalidArgument for a name that is fed twice."""
        whole = dict(feed)
        for adapter in self._adapters:
            for name, value in adapter.parameters.items():
                if name in whole:
                    raise InvalidArgument(
                        f"parameter {name!r} of an active adapter is fed already, by the caller or by another adapter; feed it once"
                    ).about(input=name)
                whole[name] = value
        return whole
