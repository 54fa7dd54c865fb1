"""An ONNX runtime in which an accelerator is a Python package, with onnxruntime's Python interface.

Names are imported when they are first used: `import ort_lite` alone loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ort_lite._version import __version__

if TYPE_CHECKING:
    from ort_lite.allocators import (
        OrtAllocatorType,
        OrtArenaCfg,
        OrtMemoryInfo,
        OrtMemType,
        create_and_register_allocator,
        register_allocator,
        unregister_allocator,
    )
    from ort_lite.api import (
        disable_telemetry_events,
        enable_telemetry_events,
        get_device,
        get_version_string,
    )
    from ort_lite.composite import CompositeProvider
    from ort_lite.explanation import Explanation
    from ort_lite.log import set_default_logger_severity, set_default_logger_verbosity
    from ort_lite.metadata import ModelMetadata, NodeArg
    from ort_lite.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
    from ort_lite.ownership.consolidate import consolidate_tensors_to_buffer
    from ort_lite.ownership.options import (
        ParseOptions,
        SerializeOptions,
        TensorBufferOptions,
        kSmallTensorDataThresholdBytes,
    )
    from ort_lite.ownership.spans import ByteSpan, span_of
    from ort_lite.ownership.tensors import tensors as model_tensors
    from ort_lite.partitioning.cost_model import CostModel
    from ort_lite.partitioning.measure import measure_costs
    from ort_lite.partitioning.strategy import CostStrategy
    from ort_lite.placement import PlacementRule, place
    from ort_lite.planning import plan
    from ort_lite.plugins import available_providers as get_available_providers
    from ort_lite.plugins import register_plugin, register_provider
    from ort_lite.selection import get_all_providers
    from ort_lite.session import InferenceSession
    from ort_lite.stages.load import load
    from ort_lite.stages.save import save
    from ort_lite.tensors.cvm import (
        CVMArrayAlloc,
        CVMArrayFree,
        CVMArrayFromHandle,
        CVMLoadParamsDict,
        CVMSaveParamsDict,
    )
    from ort_lite.tensors.io_binding import IOBinding
    from ort_lite.tensors.ndarray import NDArray
    from ort_lite.tensors.ort_value import OrtValue
    from ort_lite.tensors.params import load_params, save_params
    from ort_lite.verification.offline import verify
    from ort_lite.verification.settings import Verification

_HOME = {
    "ByteSpan": "ownership.spans",
    "CVMArrayAlloc": "tensors.cvm",
    "CVMArrayFree": "tensors.cvm",
    "CVMArrayFromHandle": "tensors.cvm",
    "CVMLoadParamsDict": "tensors.cvm",
    "CVMSaveParamsDict": "tensors.cvm",
    "CompositeProvider": "composite",
    "CostModel": "partitioning.cost_model",
    "CostStrategy": "partitioning.strategy",
    "ExecutionMode": "options",
    "ExecutionOrder": "options",
    "Explanation": "explanation",
    "GraphOptimizationLevel": "options",
    "IOBinding": "tensors.io_binding",
    "InferenceSession": "session",
    "ModelMetadata": "metadata",
    "NDArray": "tensors.ndarray",
    "NodeArg": "metadata",
    "OrtAllocatorType": "allocators",
    "OrtArenaCfg": "allocators",
    "OrtMemType": "allocators",
    "OrtMemoryInfo": "allocators",
    "OrtValue": "tensors.ort_value",
    "ParseOptions": "ownership.options",
    "PlacementRule": "placement",
    "RunOptions": "options",
    "SerializeOptions": "ownership.options",
    "SessionOptions": "options",
    "TensorBufferOptions": "ownership.options",
    "Verification": "verification.settings",
    "consolidate_tensors_to_buffer": "ownership.consolidate",
    "create_and_register_allocator": "allocators",
    "disable_telemetry_events": "api",
    "enable_telemetry_events": "api",
    "get_all_providers": "selection",
    "get_available_providers": "plugins:available_providers",
    "get_device": "api",
    "get_version_string": "api",
    "kSmallTensorDataThresholdBytes": "ownership.options",
    "load": "stages.load",
    "load_params": "tensors.params",
    "measure_costs": "partitioning.measure",
    "model_tensors": "ownership.tensors:tensors",
    "place": "placement",
    "plan": "planning",
    "register_allocator": "allocators",
    "register_plugin": "plugins",
    "register_provider": "plugins",
    "save": "stages.save",
    "save_params": "tensors.params",
    "set_default_logger_severity": "log",
    "set_default_logger_verbosity": "log",
    "span_of": "ownership.spans",
    "unregister_allocator": "allocators",
    "verify": "verification.offline",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'ort_lite' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    found = globals()[name] = getattr(import_module(f"ort_lite.{module}"), attribute or name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


__all__ = [
    "ByteSpan", "CVMArrayAlloc", "CVMArrayFree", "CVMArrayFromHandle", "CVMLoadParamsDict", "CVMSaveParamsDict",
    "CompositeProvider", "CostModel", "CostStrategy", "ExecutionMode", "ExecutionOrder", "Explanation",
    "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NDArray", "NodeArg", "OrtAllocatorType",
    "OrtArenaCfg", "OrtMemType", "OrtMemoryInfo", "OrtValue", "ParseOptions", "PlacementRule", "RunOptions",
    "SerializeOptions", "SessionOptions", "TensorBufferOptions", "Verification", "__version__",
    "consolidate_tensors_to_buffer", "create_and_register_allocator", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_device", "get_version_string", "kSmallTensorDataThresholdBytes",
    "load", "load_params", "measure_costs", "model_tensors", "place", "plan", "register_allocator", "register_plugin",
    "register_provider", "save", "save_params", "set_default_logger_severity", "set_default_logger_verbosity", "span_of",
    "unregister_allocator", "verify",
]  # fmt: skip
