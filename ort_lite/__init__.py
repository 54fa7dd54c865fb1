"""An ONNX runtime in which an accelerator is a Python package, with onnxruntime's Python interface.

The modules, in the order in which to read them. First the stages, from a file to results:

- `load`: an ONNX file becomes a Model; models are saved.
- `transform`: the contract of a transform, and the stage that applies them.
- `partition`: every node is assigned to a provider; claims, borders, costs.
- `compile`: partitions become callables.
- `execute`: feeds, steps, guards, profiles.
- `session`: Session, which takes a model through the stages; load, run, explain, close.

Then what the stages stand on:

- `errors`: the hierarchy of all errors.
- `dtypes`: element types.
- `record`: frozen classes of named fields.
- `log`: the logger, and the event stream of a session.
- `shapes`: symbolic integers: dimensions, expressions over them, broadcasting.
- `native`: how a Python function becomes native code.
- `options`: options of sessions and runs, config entries, policies.
- `graph`: Model, Graph, Node, Value, types.
- `memory`: arenas, pools, allocators, planning.
- `inference`: shape rules and operator schemas.
- `provider`: the contract of an execution provider.
- `plugins`: finds providers, transforms and rules; the hooks.
- `tensors`: tensors outside of a model: NDArray, DLPack, values on a device.

Last four rooms around this core, which imports none of them:

- `compat`: onnxruntime's names and behavior: InferenceSession, OrtValue, IOBinding, devices, the import switch, the ONNX backend.
- `params`: parameter files, tensors of a model in one buffer.
- `testing`: the conformance kit and the model generator.
- `tools`: the command line, the viewer, the playground, verified runs, the machine.

Names are imported when they are first used: `import ort_lite` alone loads nothing else.
"""

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ort_lite._version import __version__ as __version__

if TYPE_CHECKING:  # The public names. `_homes` reads these lines too, so that each name is written in one place.
    from ort_lite.compat.adapters import AdapterFormat as AdapterFormat
    from ort_lite.compat.adapters import LoraAdapter as LoraAdapter
    from ort_lite.compat.api import cuda_version as cuda_version
    from ort_lite.compat.api import disable_telemetry_events as disable_telemetry_events
    from ort_lite.compat.api import enable_telemetry_events as enable_telemetry_events
    from ort_lite.compat.api import get_available_providers as get_available_providers
    from ort_lite.compat.api import get_build_info as get_build_info
    from ort_lite.compat.api import get_device as get_device
    from ort_lite.compat.api import get_version_string as get_version_string
    from ort_lite.compat.api import has_collective_ops as has_collective_ops
    from ort_lite.compat.api import package_name as package_name
    from ort_lite.compat.api import preload_dlls as preload_dlls
    from ort_lite.compat.api import version as version
    from ort_lite.compat.assigned import OrtEpAssignedNode as OrtEpAssignedNode
    from ort_lite.compat.assigned import OrtEpAssignedSubgraph as OrtEpAssignedSubgraph
    from ort_lite.compat.chosen import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
    from ort_lite.compat.context_data import OrtEpContextData as OrtEpContextData
    from ort_lite.compat.context_data import OrtEpContextDataBuffer as OrtEpContextDataBuffer
    from ort_lite.compat.debug_info import print_debug_info as print_debug_info
    from ort_lite.compat.devices import OrtCompiledModelCompatibility as OrtCompiledModelCompatibility
    from ort_lite.compat.devices import OrtDevice as OrtDevice
    from ort_lite.compat.devices import OrtDeviceEpIncompatibilityReason as OrtDeviceEpIncompatibilityReason
    from ort_lite.compat.devices import OrtDeviceVendorId as OrtDeviceVendorId
    from ort_lite.compat.devices import OrtHardwareDevice as OrtHardwareDevice
    from ort_lite.compat.devices import OrtHardwareDeviceType as OrtHardwareDeviceType
    from ort_lite.compat.ep_devices import OrtEpDevice as OrtEpDevice
    from ort_lite.compat.ep_devices import OrtSyncStream as OrtSyncStream
    from ort_lite.compat.ep_devices import get_ep_devices as get_ep_devices
    from ort_lite.compat.ep_devices import (
        get_hardware_device_ep_incompatibility_details as get_hardware_device_ep_incompatibility_details,
    )
    from ort_lite.compat.ep_devices import get_hardware_devices as get_hardware_devices
    from ort_lite.compat.ep_devices import get_model_compatibility_for_ep_devices as get_model_compatibility_for_ep_devices
    from ort_lite.compat.ep_devices import register_execution_provider_library as register_execution_provider_library
    from ort_lite.compat.ep_devices import unregister_execution_provider_library as unregister_execution_provider_library
    from ort_lite.compat.global_threads import set_global_thread_pool_sizes as set_global_thread_pool_sizes
    from ort_lite.compat.inference_session import InferenceSession as InferenceSession
    from ort_lite.compat.io_binding import IOBinding as IOBinding
    from ort_lite.compat.log_callback import set_default_logger_callback as set_default_logger_callback
    from ort_lite.compat.model_compiler import ModelCompiler as ModelCompiler
    from ort_lite.compat.model_compiler import OrtCompileApiFlags as OrtCompileApiFlags
    from ort_lite.compat.model_compiler import OrtExternalInitializerInfo as OrtExternalInitializerInfo
    from ort_lite.compat.model_compiler import get_compatibility_info_from_model as get_compatibility_info_from_model
    from ort_lite.compat.model_compiler import (
        get_compatibility_info_from_model_bytes as get_compatibility_info_from_model_bytes,
    )
    from ort_lite.compat.ort_memory import OrtAllocatorType as OrtAllocatorType
    from ort_lite.compat.ort_memory import OrtArenaCfg as OrtArenaCfg
    from ort_lite.compat.ort_memory import OrtDeviceMemoryType as OrtDeviceMemoryType
    from ort_lite.compat.ort_memory import OrtMemoryInfo as OrtMemoryInfo
    from ort_lite.compat.ort_memory import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
    from ort_lite.compat.ort_memory import OrtMemType as OrtMemType
    from ort_lite.compat.ort_memory import create_and_register_allocator as create_and_register_allocator
    from ort_lite.compat.ort_memory import create_and_register_allocator_v2 as create_and_register_allocator_v2
    from ort_lite.compat.ort_memory import register_allocator as register_allocator
    from ort_lite.compat.ort_memory import unregister_allocator as unregister_allocator
    from ort_lite.compat.ort_options import RunOptions as RunOptions
    from ort_lite.compat.ort_options import SessionOptions as SessionOptions
    from ort_lite.compat.ort_value import OrtValue as OrtValue
    from ort_lite.compat.ort_value_vector import OrtValueVector as OrtValueVector
    from ort_lite.compat.packages.context import ModelPackageComponentContext as ModelPackageComponentContext
    from ort_lite.compat.packages.context import ModelPackageContext as ModelPackageContext
    from ort_lite.compat.packages.package import ModelPackage as ModelPackage
    from ort_lite.compat.packages.package import ModelPackageWriteMode as ModelPackageWriteMode
    from ort_lite.compat.packages.selection import ModelPackageOptions as ModelPackageOptions
    from ort_lite.compat.session_io_binding import SessionIOBinding as SessionIOBinding
    from ort_lite.compat.sparse import OrtSparseFormat as OrtSparseFormat
    from ort_lite.compat.sparse import SparseTensor as SparseTensor
    from ort_lite.compat.switch import install_as_onnxruntime as install_as_onnxruntime
    from ort_lite.compat.tensor_copies import copy_tensors as copy_tensors
    from ort_lite.load.load import load as load
    from ort_lite.load.parse_options import ParseOptions as ParseOptions
    from ort_lite.load.parse_options import SerializeOptions as SerializeOptions
    from ort_lite.load.parse_options import TensorBufferOptions as TensorBufferOptions
    from ort_lite.load.parse_options import kSmallTensorDataThresholdBytes as kSmallTensorDataThresholdBytes
    from ort_lite.load.save import save as save
    from ort_lite.load.spans import ByteSpan as ByteSpan
    from ort_lite.load.spans import span_of as span_of
    from ort_lite.load.tensors import model_tensors as model_tensors
    from ort_lite.log import set_default_logger_severity as set_default_logger_severity
    from ort_lite.log import set_default_logger_verbosity as set_default_logger_verbosity
    from ort_lite.log.progress_line import set_default_progress as set_default_progress
    from ort_lite.options.options import ExecutionMode as ExecutionMode
    from ort_lite.options.options import ExecutionOrder as ExecutionOrder
    from ort_lite.options.options import GraphOptimizationLevel as GraphOptimizationLevel
    from ort_lite.params.consolidate import consolidate_tensors_to_buffer as consolidate_tensors_to_buffer
    from ort_lite.params.cvm import CVMArrayAlloc as CVMArrayAlloc
    from ort_lite.params.cvm import CVMArrayFree as CVMArrayFree
    from ort_lite.params.cvm import CVMArrayFromHandle as CVMArrayFromHandle
    from ort_lite.params.cvm import CVMLoadParamsDict as CVMLoadParamsDict
    from ort_lite.params.cvm import CVMSaveParamsDict as CVMSaveParamsDict
    from ort_lite.params.params import load_params as load_params
    from ort_lite.params.params import save_params as save_params
    from ort_lite.partition.cost.cost_model import CostModel as CostModel
    from ort_lite.partition.cost.strategy import CostStrategy as CostStrategy
    from ort_lite.partition.placement import PlacementRule as PlacementRule
    from ort_lite.partition.placement import place as place
    from ort_lite.plugins.plugins import register_plugin as register_plugin
    from ort_lite.plugins.plugins import register_provider as register_provider
    from ort_lite.plugins.plugins import unregister_plugin as unregister_plugin
    from ort_lite.plugins.plugins import unregister_provider as unregister_provider
    from ort_lite.plugins.selection import get_all_providers as get_all_providers
    from ort_lite.plugins.selection import set_default_providers as set_default_providers
    from ort_lite.provider.seeds import set_seed as set_seed
    from ort_lite.session.composite import CompositeProvider as CompositeProvider
    from ort_lite.session.explanation import Explanation as Explanation
    from ort_lite.session.metadata import ModelMetadata as ModelMetadata
    from ort_lite.session.metadata import NodeArg as NodeArg
    from ort_lite.session.planning import plan as plan
    from ort_lite.tensors.ndarray import NDArray as NDArray
    from ort_lite.tools.verify.measure import measure_costs as measure_costs
    from ort_lite.tools.verify.settings import Verification as Verification
    from ort_lite.tools.verify.verify import verify as verify


@cache
def _homes() -> dict[str, str]:
    """The module of each public name, as the lines above have it."""
    import re

    loader: Any = __spec__.loader
    source = loader.get_source(__name__)
    return {name: home for home, name in re.findall(r"from (\S+) import \(?\s*(\w+) as \2\b", source)}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({"__version__", *_homes()})
    home = _homes().get(name)
    if home is None:
        raise AttributeError(f"module 'ort_lite' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})


class _Face(ModuleType):
    """This module: `ort_lite.load` is a function, which the import of the folder `load` does not hide."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "load" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


class _Moved:
    """Finds modules by the names that they had before they moved. It is asked last."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("ort_lite."):
            return None
        from ort_lite.plugins.moved import spec_of

        return spec_of(name)


sys.modules[__name__].__class__ = _Face
sys.meta_path.append(_Moved)
