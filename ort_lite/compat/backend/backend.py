"""The class of ONNX's backend API. The onnx package is imported on first use."""

from typing import Any

from ort_lite.compat.api import get_device
from ort_lite.compat.backend.backend_rep import OrtLiteBackendRep, apply_options
from ort_lite.compat.chosen import OrtExecutionProviderDevicePolicy
from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import RuntimeException
from ort_lite.load.proto import pb, serialize

SESSION_OPTIONS = frozenset(
    {
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "execution_mode",
        "execution_order",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "use_deterministic_compute",
        "use_per_session_threads",
    }
)
"""The session options that may be passed. Options that write files are excluded."""


_POLICIES = {
    "GPU": OrtExecutionProviderDevicePolicy.PREFER_GPU,
    "NPU": OrtExecutionProviderDevicePolicy.PREFER_NPU,
}


def _kind(device: str) -> str:
    return "GPU" if device == "CUDA" else device


class OrtLiteBackend:
    """ONNX's backend class. A model is a path, bytes, a ModelProto, a session or a result of `prepare`."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Return True if models can run on the device; None is the default device."""
        return cls.supports_device(get_device() if device is None else device)

    @classmethod
    def is_opset_supported(cls, model: Any) -> tuple[bool, str]:
        """Return (True, ""): every released opset is supported. Loading reports unknown imports."""
        return True, ""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True if an available provider has such a device: CPU, GPU or CUDA, NPU."""
        from ort_lite.compat.ep_devices import get_ep_devices
        from ort_lite.plugins.plugins import available_providers

        name = _kind(device)
        announced = set(available_providers())
        return any(each.device.type.name == name for each in get_ep_devices() if each.ep_name in announced)

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> OrtLiteBackendRep:
        """Create a session for a model and return it with ONNX's `run`.

        Keywords are the SessionOptions listed in `SESSION_OPTIONS`. For a device other than the CPU,
        `SessionOptions.set_provider_selection_policy` chooses the provider. Raises RuntimeException for other options and for a
        device without a provider, and the errors of session creation.
        """
        if isinstance(model, OrtLiteBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return OrtLiteBackendRep(model)
        if device is not None and not cls.supports_device(device):
            raise RuntimeException(f"incompatible device: expected {device!r}, got {get_device()!r}")
        options = apply_options(SessionOptions(), kwargs, SESSION_OPTIONS)
        if device is not None and (policy := _POLICIES.get(_kind(device))) is not None:
            options.set_provider_selection_policy(policy)
        source = serialize(model) if isinstance(model, pb.ModelProto) else model
        return OrtLiteBackendRep(InferenceSession(source, options))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> list[Any]:
        """Run a model once and return the outputs. Keywords are passed to `prepare` and `run`."""
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None, **kwargs: Any) -> Any:
        """Raise NotImplemented, as in onnxruntime: put the node into a model."""
        raise NotSupported("run_node: it is much more efficient to run a whole model than every node by itself; use run_model")
