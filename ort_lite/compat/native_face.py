"""The object behind `InferenceSession._sess`: onnxruntime's native session interface for a session of ort-lite."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.errors import InvalidArgument

if TYPE_CHECKING:
    from ort_lite.compat.ort_value import OrtValue
    from ort_lite.compat.ort_value_vector import OrtValueVector
    from ort_lite.options.options import RunOptions


class NativeFace:
    """An adapter with the native class's attributes and argument order. Other members, such as `run`, are those of the session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def session(self) -> Any:
        """The InferenceSession."""
        return self._session

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"the session has no {name!r}")
        return getattr(self._session, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NativeFace) and other._session is self._session

    def __hash__(self) -> int:
        return hash(self._session)

    def run_with_ort_values(
        self, feed: Mapping[str, "OrtValue"], output_names: Sequence[str], run_options: "RunOptions | None" = None
    ) -> "OrtValueVector":
        """Run with OrtValues; unlike in the outer class, the feed comes first."""
        from ort_lite.compat.ort_value_vector import OrtValueVector

        return OrtValueVector(self._session.run_with_ort_values(output_names, feed, run_options))

    def create_ortvalue_from_shape_and_onnx_type(self, shape: Sequence[int], element_type: int, device: Any) -> "OrtValue":
        """Create a tensor of zeros on an OrtDevice of the CPU.

        The session's own `create_ortvalue_from_shape_and_type` accepts other devices by name.
        """
        from ort_lite.compat.ort_value import OrtValue

        made: OrtValue = self._session.create_ortvalue_from_shape_and_type(shape, element_type, device)
        return made

    def initialize_session(self, providers: Sequence[str], provider_options: Sequence[Any], disabled: Any = ()) -> None:
        """Raise InvalidArgument: a session is initialized when it is created."""
        raise InvalidArgument("initialize_session: the session is ready already; set_providers() prepares it for others")

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """Return False: graph capture is not supported."""
        return False

    def webgpu_context_id(self) -> int:
        """Return -1: the session has no WebGPU context."""
        return -1

    @property
    def inputs_meta(self) -> Any:
        """The inputs, as from `get_inputs`."""
        return self._session.get_inputs()

    @property
    def outputs_meta(self) -> Any:
        """The outputs, as from `get_outputs`."""
        return self._session.get_outputs()

    @property
    def overridable_initializers(self) -> Any:
        """The initializers that a run may override."""
        return self._session.get_overridable_initializers()

    @property
    def model_meta(self) -> Any:
        """The metadata, as from `get_modelmeta`."""
        return self._session.get_modelmeta()

    @property
    def session_options(self) -> Any:
        """The options, as from `get_session_options`."""
        return self._session.get_session_options()

    @property
    def input_meminfos(self) -> Any:
        """The memory of the inputs, as from `get_input_memory_infos`."""
        return self._session.get_input_memory_infos()

    @property
    def output_meminfos(self) -> Any:
        """The memory of the outputs, as from `get_output_memory_infos`."""
        return self._session.get_output_memory_infos()

    @property
    def get_profiling_start_time_ns(self) -> int:
        """The start of profiling in nanoseconds; a property here, not a method."""
        return int(self._session.get_profiling_start_time_ns())
