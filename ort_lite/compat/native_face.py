"""The object behind `InferenceSession._sess`: the methods of onnxruntime's native session, over one of ours."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.errors import InvalidArgument

if TYPE_CHECKING:
    from ort_lite.compat.background import Callback
    from ort_lite.compat.io_binding import IOBinding
    from ort_lite.compat.ort_value import OrtValue
    from ort_lite.compat.ort_value_vector import OrtValueVector
    from ort_lite.compat.session_io_binding import SessionIOBinding
    from ort_lite.options.options import RunOptions


class NativeFace:
    """Attributes and orders of arguments are the native class's; everything that it does not define is the session's."""

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

    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: "RunOptions | None" = None
    ) -> list[Any]:
        made: list[Any] = self._session.run(output_names, input_feed, run_options)
        return made

    def run_async(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        callback: "Callback",
        user_data: Any = None,
        run_options: "RunOptions | None" = None,
    ) -> None:
        self._session.run_async(output_names, input_feed, callback, user_data, run_options)

    def run_with_ort_values(
        self, feed: Mapping[str, "OrtValue"], output_names: Sequence[str], run_options: "RunOptions | None" = None
    ) -> "OrtValueVector":
        """The feed comes first here."""
        from ort_lite.compat.ort_value_vector import OrtValueVector

        return OrtValueVector(self._session.run_with_ort_values(output_names, feed, run_options))

    def run_with_iobinding(self, iobinding: "IOBinding | SessionIOBinding", run_options: "RunOptions | None" = None) -> None:
        self._session.run_with_iobinding(iobinding, run_options)

    def create_ortvalue_from_shape_and_onnx_type(self, shape: Sequence[int], element_type: int, device: Any) -> "OrtValue":
        """`device` is an OrtDevice of the CPU; the session's own `create_ortvalue_from_shape_and_type` takes others by name."""
        from ort_lite.compat.ort_value import OrtValue

        made: OrtValue = self._session.create_ortvalue_from_shape_and_type(shape, element_type, device)
        return made

    def initialize_session(self, providers: Sequence[str], provider_options: Sequence[Any], disabled: Any = ()) -> None:
        """Raises InvalidArgument: a session is ready once it is made."""
        raise InvalidArgument("initialize_session: the session is ready already; set_providers() prepares it for others")

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """Providers capture nothing of their own accord."""
        return False

    def webgpu_context_id(self) -> int:
        """-1: the session has no context of WebGPU."""
        return -1

    @property
    def inputs_meta(self) -> Any:
        return self._session.get_inputs()

    @property
    def outputs_meta(self) -> Any:
        return self._session.get_outputs()

    @property
    def overridable_initializers(self) -> Any:
        return self._session.get_overridable_initializers()

    @property
    def model_meta(self) -> Any:
        return self._session.get_modelmeta()

    @property
    def session_options(self) -> Any:
        return self._session.get_session_options()

    @property
    def input_meminfos(self) -> Any:
        return self._session.get_input_memory_infos()

    @property
    def output_meminfos(self) -> Any:
        return self._session.get_output_memory_infos()

    @property
    def get_profiling_start_time_ns(self) -> int:
        """No method here."""
        return int(self._session.get_profiling_start_time_ns())
