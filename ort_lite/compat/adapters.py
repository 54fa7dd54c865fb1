"""onnxruntime's adapter classes: read and write adapter files, and pass adapters to `RunOptions.add_active_adapter`."""

import os
from collections.abc import Mapping

from ort_lite.compat.adapter_file import FORMAT_VERSION, LARGEST, AdapterFile, adapter_bytes, read_adapter_bytes
from ort_lite.compat.ort_value import OrtValue
from ort_lite.errors import Fail
from ort_lite.load.files import read_file_for, write_file


class AdapterFormat:
    """The contents of an adapter file: parameters by name, and the versions of the adapter and of its model."""

    def __init__(self, adapter: AdapterFile | None = None) -> None:
        held = AdapterFile(0, 0, {}) if adapter is None else adapter
        self._format, self._adapter_version, self._model_version = held.format_version, held.adapter_version, held.model_version
        self._parameters = {name: OrtValue(array) for name, array in held.parameters.items()}

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> "AdapterFormat":
        """Read an adapter file.

        Raises NoSuchFile, InvalidParams for a file that is not an adapter, and Fail for one it cannot read.
        """
        return AdapterFormat(_read(file_path))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Write an adapter file. Raises InvalidArgument for an element type that adapter files do not support."""
        arrays = {name: value.numpy() for name, value in self._parameters.items()}
        write_file(file_path, adapter_bytes(AdapterFile(self._adapter_version, self._model_version, arrays)))

    def get_format_version(self) -> int:
        """Return the version of the file format."""
        return self._format

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the version of the adapter."""
        self._adapter_version = int(adapter_version)

    def get_adapter_version(self) -> int:
        """Return the version of the adapter."""
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        """Set the version of the model that the adapter is for."""
        self._model_version = int(model_version)

    def get_model_version(self) -> int:
        """Return the version of the model that the adapter is for."""
        return self._model_version

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Set the parameters, by name."""
        self._parameters = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        """Return the parameters by name. They share the memory of the file that was read."""
        return dict(self._parameters)


class LoraAdapter:
    """An adapter for `RunOptions.add_active_adapter`. Call `Load` first."""

    def __init__(self) -> None:
        self._file: AdapterFile | None = None

    def Load(self, file_path: str | os.PathLike[str]) -> None:
        """Read an adapter file. Raises NoSuchFile, InvalidParams for other data, and Fail for an unreadable file."""
        self._file = _read(file_path)

    @property
    def parameters(self) -> Mapping[str, object]:
        """The arrays by name. Raises Fail before `Load`."""
        if self._file is None:
            raise Fail("the LoraAdapter is empty: call its Load(path) before a run is given it")
        return self._file.parameters


def _read(path: str | os.PathLike[str]) -> AdapterFile:
    return read_adapter_bytes(read_file_for(path, f"the adapter {os.fspath(path)!r}", LARGEST))


__all__ = ["FORMAT_VERSION", "AdapterFormat", "LoraAdapter"]
