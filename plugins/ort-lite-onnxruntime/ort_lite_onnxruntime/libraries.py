"""Register libraries of execution providers with onnxruntime, which it loads into the process."""

import os
from typing import Any

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.memory import locks


class _Libraries:
    """The devices that each library brought, by its path.

    A registration belongs to the process. A library stays loaded until the process ends, since unloading it ends the process if
    a session of any program uses it.
    """

    def __init__(self) -> None:
        self.lock = locks.lock()
        self.devices: dict[str, tuple[Any, ...]] = {}


_PROCESS = _Libraries()


def onnxruntime_module() -> Any:
    """Import onnxruntime. Raises NoDevice if ort_lite takes its place in this process."""
    import onnxruntime

    if "+ort.lite" in onnxruntime.__version__:
        raise NoDevice("onnxruntime is ort_lite itself in this process (ort_lite.install_as_onnxruntime)")
    return onnxruntime


def devices_of(library: str) -> tuple[Any, ...]:
    """Return onnxruntime's OrtEpDevice objects of a library, which is registered once a process.

    Raises ProviderError, with the path and the reason, for a library that cannot be loaded.
    """
    path = os.path.realpath(library)
    with _PROCESS.lock:
        if path not in _PROCESS.devices:
            _PROCESS.devices[path] = _register(onnxruntime_module(), path)
        return _PROCESS.devices[path]


def _register(onnxruntime: Any, path: str) -> tuple[Any, ...]:
    """Register a library, unless the program itself has done so under a name of its own."""
    there = [device for device in onnxruntime.get_ep_devices() if _path_of(device) == path]
    if not there:
        try:
            onnxruntime.register_execution_provider_library(f"ort_lite:{path}", path)
        except Exception as error:  # onnxruntime's classes have no base of their own
            raise ProviderError(f"{path} cannot be loaded: {innermost(error)}") from error
        there = [device for device in onnxruntime.get_ep_devices() if _path_of(device) == path]
    return tuple(there)


def _path_of(device: Any) -> str:
    """Return the path of the library that brought a device; that of built-in devices is empty."""
    return os.path.realpath(path) if (path := device.ep_metadata.get("library_path")) else ""


def innermost(error: Exception) -> str:
    """Return the text of the innermost of onnxruntime's errors in one line, without those that pass it on."""
    _, prefix, text = " ".join(str(error).split()).rpartition("[ONNXRuntimeError]")
    return prefix + text
