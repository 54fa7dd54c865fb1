"""Earlier dotted paths of modules and names, which still work but warn.

Programs, providers and pickles of earlier releases use them. `ort_lite/__init__.py` calls `spec_of` for a module that is not
found otherwise; modules that a name has left call `resolve_name`.
"""

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES = {
    "backend": "compat.backend",
    "checkpoint": "native.checkpoint",
    "commands": "tools.cli",
    "commands.desk": "tools.playground",
    "datasets": "compat.datasets",
    "inference.rules": "inference.shape_rules",
    "load.consolidate": "params.consolidate",
    "load.origins": "compat.initializer_files",
    "machine": "tools.machine",
    "machine.image": "provider.machine_image",
    "onnxruntime": "compat.onnxruntime",
    "memory.account": "memory.session_memory",
    "memory.equal": "memory.arenas",
    "native.upkeep": "tools.cli.upkeep",
    "options.chosen": "compat.chosen",
    "options.context_data": "compat.context_data",
    "options.enums": "options.options",
    "options.onnxruntime_optimizers": "compat.optimizers",
    "partition.cost.operations": "partition.cost.work",
    "partition.layer_assignment": "compat.layer_assignment",
    "partition.rules": "partition.placement_rules",
    "partition.tables": "tools.view.tables",
    "pipeline": "session",
    "plugins.debug_info": "compat.debug_info",
    "plugins.devices": "compat.provider_devices",
    "plugins.ep_devices": "compat.ep_devices",
    "serialization": "load",
    "provider.labels": "provider.ask",
    "session.adapters": "compat.adapters",
    "session.assigned": "compat.assigned",
    "session.background": "compat.async_runs",
    "session.copying": "compat.tensor_copies",
    "session.costs": "tools.view.costs",
    "session.ep_devices": "compat.input_devices",
    "session.io_binding": "compat.io_binding",
    "session.measure": "tools.verify.measure",
    "session.model_compiler": "compat.model_compiler",
    "session.native_face": "compat.native_face",
    "session.node_events": "compat.node_events",
    "session.node_times": "tools.view.node_times",
    "session.notebook": "tools.view.notebook",
    "session.ort_value": "compat.ort_value",
    "session.ort_value_vector": "compat.ort_value_vector",
    "session.session_io_binding": "compat.session_io_binding",
    "session.verify": "tools.verify.verify",
    "session.viewing": "tools.view.viewing",
    "tensors.adapter_file": "compat.adapter_file",
    "tensors.cvm": "params.cvm",
    "tensors.param_records": "params.param_records",
    "tensors.params": "params.params",
    "tensors.sparse": "compat.sparse",
    "machine.machine": "tools.machine.formal_machine",
    "machine.trace": "tools.machine.machine_trace",
    "tools.machine.machine": "tools.machine.formal_machine",
    "tools.machine.trace": "tools.machine.machine_trace",
    "tools.verify.report": "tools.verify.verification_report",
    "tools.view.view": "tools.view.view_result",
    "verification.report": "tools.verify.verification_report",
    "view.view": "tools.view.view_result",
    "verification": "tools.verify",
    "view": "tools.view",
}
"""The current path of each old module, both relative to `ort_lite`. A folder stands for everything in it."""

NAMES = {
    "session.InferenceSession": "compat.inference_session",
    "session.session.InferenceSession": "compat.inference_session",
}
"""The module that defines a name that has left a module which still exists."""


def spec_of(name: str) -> ModuleSpec | None:
    """Return the spec of a module under its old name, with a DeprecationWarning; None if the table does not have it."""
    new = _new_name(name)
    if new is None:
        return None
    if _new_name(name.rpartition(".")[0]) is None:  # otherwise the import of the folder has warned
        warnings.warn(f"{name} is now {new}", DeprecationWarning, stacklevel=3)
    real = import_module(new)
    loader: Any = _Alias(real)  # not derived from importlib.abc.Loader, whose import takes milliseconds
    return ModuleSpec(name, loader, is_package=hasattr(real, "__path__"))


def resolve_name(module: str, name: str) -> Any:
    """Return a name that moved out of a module, with a DeprecationWarning. Raises AttributeError for anything else."""
    home = NAMES.get(f"{module}.{name}".removeprefix("ort_lite."))
    if home is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is now ort_lite.{home}.{name}", DeprecationWarning, stacklevel=3)
    found = getattr(import_module(f"ort_lite.{home}"), name)
    setattr(sys.modules[module], name, found)
    return found


def _new_name(name: str) -> str | None:
    """Translate a name by its longest prefix in the table."""
    head, rest = name.removeprefix("ort_lite."), ""
    while head:
        if head in MODULES:
            return f"ort_lite.{MODULES[head]}{rest}"
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
    return None


class _Alias:
    """A loader that provides a module under its old name.

    For a folder, it creates an empty package next to the real one, in which old names are looked up.
    """

    def __init__(self, real: ModuleType) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that the import system creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        if hasattr(module, "__path__"):  # an empty folder, so that no file of it is loaded twice
            module.__dict__["__getattr__"] = lambda name: getattr(self._real, name)
        else:
            sys.modules[module.__name__] = self._real
