"""An ONNX runtime in which an accelerator is a Python package, with onnxruntime's Python interface.

Names are imported when they are first used: `import ort_lite` alone loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ort_lite._version import __version__

if TYPE_CHECKING:
    from ort_lite.compat.adapters import AdapterFormat, LoraAdapter
    from ort_lite.compat.allocators import (
        OrtAllocatorType,
        OrtArenaCfg,
        OrtDeviceMemoryType,
        OrtMemoryInfo,
        OrtMemoryInfoDeviceType,
        OrtMemType,
        create_and_register_allocator,
        create_and_register_allocator_v2,
        register_allocator,
        unregister_allocator,
    )
    from ort_lite.compat.api import (
        cuda_version,
        disable_telemetry_events,
        enable_telemetry_events,
        get_build_info,
        get_device,
        get_version_string,
        has_collective_ops,
        package_name,
        preload_dlls,
        version,
    )
    from ort_lite.compat.assigned import OrtEpAssignedNode, OrtEpAssignedSubgraph
    from ort_lite.compat.chosen import OrtExecutionProviderDevicePolicy
    from ort_lite.compat.context_data import OrtEpContextData, OrtEpContextDataBuffer
    from ort_lite.compat.copying import copy_tensors
    from ort_lite.compat.debug_info import print_debug_info
    from ort_lite.compat.devices import (
        OrtCompiledModelCompatibility,
        OrtDevice,
        OrtDeviceEpIncompatibilityReason,
        OrtDeviceVendorId,
        OrtHardwareDevice,
        OrtHardwareDeviceType,
    )
    from ort_lite.compat.ep_devices import (
        OrtEpDevice,
        OrtSyncStream,
        get_ep_devices,
        get_hardware_device_ep_incompatibility_details,
        get_hardware_devices,
        get_model_compatibility_for_ep_devices,
        register_execution_provider_library,
        unregister_execution_provider_library,
    )
    from ort_lite.compat.global_threads import set_global_thread_pool_sizes
    from ort_lite.compat.inference_session import InferenceSession
    from ort_lite.compat.io_binding import IOBinding
    from ort_lite.compat.model_compiler import (
        ModelCompiler,
        OrtCompileApiFlags,
        OrtExternalInitializerInfo,
        get_compatibility_info_from_model,
        get_compatibility_info_from_model_bytes,
    )
    from ort_lite.compat.ort_value import OrtValue
    from ort_lite.compat.ort_value_vector import OrtValueVector
    from ort_lite.compat.session_io_binding import SessionIOBinding
    from ort_lite.compat.sparse import OrtSparseFormat, SparseTensor
    from ort_lite.compat.switch import install_as_onnxruntime
    from ort_lite.load.consolidate import consolidate_tensors_to_buffer
    from ort_lite.load.load import load
    from ort_lite.load.parse_options import ParseOptions, SerializeOptions, TensorBufferOptions, kSmallTensorDataThresholdBytes
    from ort_lite.load.save import save
    from ort_lite.load.spans import ByteSpan, span_of
    from ort_lite.load.tensors import tensors as model_tensors
    from ort_lite.log import set_default_logger_severity, set_default_logger_verbosity
    from ort_lite.options.options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
    from ort_lite.params.cvm import CVMArrayAlloc, CVMArrayFree, CVMArrayFromHandle, CVMLoadParamsDict, CVMSaveParamsDict
    from ort_lite.params.params import load_params, save_params
    from ort_lite.partition.cost.cost_model import CostModel
    from ort_lite.partition.cost.strategy import CostStrategy
    from ort_lite.partition.placement import PlacementRule, place
    from ort_lite.plugins.plugins import available_providers as get_available_providers
    from ort_lite.plugins.plugins import register_plugin, register_provider, unregister_plugin, unregister_provider
    from ort_lite.plugins.selection import get_all_providers, set_default_providers
    from ort_lite.session.composite import CompositeProvider
    from ort_lite.session.explanation import Explanation
    from ort_lite.session.metadata import ModelMetadata, NodeArg
    from ort_lite.session.planning import plan
    from ort_lite.tensors.ndarray import NDArray
    from ort_lite.tools.verify.measure import measure_costs
    from ort_lite.tools.verify.settings import Verification
    from ort_lite.tools.verify.verify import verify

_HOME = {
    "AdapterFormat": "compat.adapters",
    "ByteSpan": "load.spans",
    "CVMArrayAlloc": "params.cvm",
    "CVMArrayFree": "params.cvm",
    "CVMArrayFromHandle": "params.cvm",
    "CVMLoadParamsDict": "params.cvm",
    "CVMSaveParamsDict": "params.cvm",
    "CompositeProvider": "session.composite",
    "CostModel": "partition.cost.cost_model",
    "CostStrategy": "partition.cost.strategy",
    "ExecutionMode": "options.options",
    "ExecutionOrder": "options.options",
    "Explanation": "session.explanation",
    "GraphOptimizationLevel": "options.options",
    "IOBinding": "compat.io_binding",
    "InferenceSession": "session.session",
    "LoraAdapter": "compat.adapters",
    "ModelCompiler": "compat.model_compiler",
    "ModelMetadata": "session.metadata",
    "NDArray": "tensors.ndarray",
    "NodeArg": "session.metadata",
    "OrtAllocatorType": "compat.allocators",
    "OrtArenaCfg": "compat.allocators",
    "OrtCompileApiFlags": "compat.model_compiler",
    "OrtCompiledModelCompatibility": "compat.devices",
    "OrtDevice": "compat.devices",
    "OrtDeviceEpIncompatibilityReason": "compat.devices",
    "OrtDeviceMemoryType": "compat.allocators",
    "OrtDeviceVendorId": "compat.devices",
    "OrtEpAssignedNode": "compat.assigned",
    "OrtEpAssignedSubgraph": "compat.assigned",
    "OrtEpContextData": "compat.context_data",
    "OrtEpContextDataBuffer": "compat.context_data",
    "OrtEpDevice": "compat.ep_devices",
    "OrtExecutionProviderDevicePolicy": "compat.chosen",
    "OrtExternalInitializerInfo": "compat.model_compiler",
    "OrtHardwareDevice": "compat.devices",
    "OrtHardwareDeviceType": "compat.devices",
    "OrtMemType": "compat.allocators",
    "OrtMemoryInfo": "compat.allocators",
    "OrtMemoryInfoDeviceType": "compat.allocators",
    "OrtSparseFormat": "compat.sparse",
    "OrtSyncStream": "compat.ep_devices",
    "OrtValue": "compat.ort_value",
    "OrtValueVector": "compat.ort_value_vector",
    "ParseOptions": "load.parse_options",
    "PlacementRule": "partition.placement",
    "RunOptions": "options.options",
    "SerializeOptions": "load.parse_options",
    "SessionIOBinding": "compat.session_io_binding",
    "SessionOptions": "options.options",
    "SparseTensor": "compat.sparse",
    "TensorBufferOptions": "load.parse_options",
    "Verification": "tools.verify.settings",
    "consolidate_tensors_to_buffer": "load.consolidate",
    "copy_tensors": "compat.copying",
    "create_and_register_allocator": "compat.allocators",
    "create_and_register_allocator_v2": "compat.allocators",
    "cuda_version": "compat.api",
    "disable_telemetry_events": "compat.api",
    "enable_telemetry_events": "compat.api",
    "get_all_providers": "plugins.selection",
    "get_available_providers": "plugins.plugins:available_providers",
    "get_build_info": "compat.api",
    "get_compatibility_info_from_model": "compat.model_compiler",
    "get_compatibility_info_from_model_bytes": "compat.model_compiler",
    "get_device": "compat.api",
    "get_ep_devices": "compat.ep_devices",
    "get_hardware_device_ep_incompatibility_details": "compat.ep_devices",
    "get_hardware_devices": "compat.ep_devices",
    "get_model_compatibility_for_ep_devices": "compat.ep_devices",
    "get_version_string": "compat.api",
    "has_collective_ops": "compat.api",
    "install_as_onnxruntime": "compat.switch",
    "kSmallTensorDataThresholdBytes": "load.parse_options",
    "load": "load.load",
    "load_params": "params.params",
    "measure_costs": "tools.verify.measure",
    "model_tensors": "load.tensors:tensors",
    "package_name": "compat.api",
    "place": "partition.placement",
    "plan": "session.planning",
    "preload_dlls": "compat.api",
    "print_debug_info": "compat.debug_info",
    "register_allocator": "compat.allocators",
    "register_execution_provider_library": "compat.ep_devices",
    "register_plugin": "plugins.plugins",
    "register_provider": "plugins.plugins",
    "save": "load.save",
    "save_params": "params.params",
    "set_default_logger_severity": "log",
    "set_default_logger_verbosity": "log",
    "set_default_providers": "plugins.selection",
    "set_global_thread_pool_sizes": "compat.global_threads",
    "set_seed": "provider.seeds",
    "span_of": "load.spans",
    "unregister_allocator": "compat.allocators",
    "unregister_execution_provider_library": "compat.ep_devices",
    "unregister_plugin": "plugins.plugins",
    "unregister_provider": "plugins.plugins",
    "verify": "tools.verify.verify",
    "version": "compat.api",
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
    "AdapterFormat", "ByteSpan", "CVMArrayAlloc", "CVMArrayFree", "CVMArrayFromHandle", "CVMLoadParamsDict",
    "CVMSaveParamsDict", "CompositeProvider", "CostModel", "CostStrategy", "ExecutionMode", "ExecutionOrder", "Explanation",
    "GraphOptimizationLevel", "IOBinding", "InferenceSession", "LoraAdapter", "ModelCompiler", "ModelMetadata", "NDArray",
    "NodeArg", "OrtAllocatorType", "OrtArenaCfg", "OrtCompileApiFlags", "OrtCompiledModelCompatibility", "OrtDevice",
    "OrtDeviceEpIncompatibilityReason", "OrtDeviceMemoryType", "OrtDeviceVendorId", "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph", "OrtEpContextData", "OrtEpContextDataBuffer", "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy", "OrtExternalInitializerInfo", "OrtHardwareDevice", "OrtHardwareDeviceType",
    "OrtMemType", "OrtMemoryInfo", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtSyncStream", "OrtValue",
    "OrtValueVector", "ParseOptions", "PlacementRule", "RunOptions", "SerializeOptions", "SessionIOBinding",
    "SessionOptions", "SparseTensor", "TensorBufferOptions", "Verification", "__version__", "consolidate_tensors_to_buffer",
    "copy_tensors", "create_and_register_allocator", "create_and_register_allocator_v2", "cuda_version",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info",
    "get_compatibility_info_from_model", "get_compatibility_info_from_model_bytes", "get_device", "get_ep_devices",
    "get_hardware_device_ep_incompatibility_details", "get_hardware_devices", "get_model_compatibility_for_ep_devices",
    "get_version_string", "has_collective_ops", "install_as_onnxruntime", "kSmallTensorDataThresholdBytes", "load",
    "load_params", "measure_costs", "model_tensors", "package_name", "place", "plan", "preload_dlls", "print_debug_info",
    "register_allocator", "register_execution_provider_library", "register_plugin", "register_provider", "save",
    "save_params", "set_default_logger_severity", "set_default_logger_verbosity", "set_default_providers",
    "set_global_thread_pool_sizes", "set_seed", "span_of", "unregister_allocator", "unregister_execution_provider_library",
    "unregister_plugin", "unregister_provider", "verify", "version",
]  # fmt: skip
