"""Execution providers of onnxruntime that sessions may use: built-in ones, and those of registered libraries.

A session whose provider fails raises the error, instead of printing it and starting anew with the CPU provider.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from ort_lite.record import Record

CPU = "CPUExecutionProvider"


class OrtProvider(Protocol):
    """An execution provider of onnxruntime with its options."""

    @property
    def name(self) -> str:
        """Its name in onnxruntime."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Its options."""

    @property
    def is_library(self) -> bool:
        """True if onnxruntime calls it through the interface for libraries, which has no tensors of unknown rank."""

    def __str__(self) -> str:
        """Return the name and the device, for messages."""

    def session(self, model: bytes, options: Any) -> Any:
        """Create a session for a model, with onnxruntime's CPU provider as the fallback."""


class BuiltIn(Record):
    """An execution provider that is part of onnxruntime."""

    name: str
    options: Mapping[str, Any]
    is_library: bool = False

    def __str__(self) -> str:
        return self.name

    def session(self, model: bytes, options: Any) -> Any:
        """Create a session that names the provider."""
        import onnxruntime

        providers: list[Any] = [(self.name, dict(self.options))]
        providers = providers if self.name == CPU else [*providers, CPU]
        return onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=0)


class Hosted(Record):
    """An execution provider of a registered library on one device. `device` is onnxruntime's OrtEpDevice."""

    name: str
    options: Mapping[str, str]
    device: Any
    is_library: bool = True

    def __str__(self) -> str:
        return f"{self.name} on the {self.device.device.type.name}"

    def session(self, model: bytes, options: Any) -> Any:
        """Create a session that adds the provider for the device."""
        import onnxruntime

        options.add_provider_for_devices([self.device], dict(self.options))
        return onnxruntime.InferenceSession(model, options, enable_fallback=0)
