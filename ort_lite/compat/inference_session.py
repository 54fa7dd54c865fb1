"""InferenceSession: a Session with what else onnxruntime's has, its values and bindings, and members that its programs use."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.compat.options import SessionOptions as CompatibleOptions
from ort_lite.errors import Fail, InvalidArgument
from ort_lite.options import config_keys
from ort_lite.provider.provider import CPU
from ort_lite.session.session import Session
from ort_lite.tensors.device_tensor import device_named

if TYPE_CHECKING:
    from ort_lite.compat.allocators import OrtMemoryInfo
    from ort_lite.compat.assigned import OrtEpAssignedSubgraph
    from ort_lite.compat.background import Callback, PendingRun
    from ort_lite.compat.ep_devices import OrtEpDevice
    from ort_lite.compat.io_binding import IOBinding
    from ort_lite.compat.native_face import NativeFace
    from ort_lite.compat.options import RunOptions
    from ort_lite.compat.ort_value import OrtValue
    from ort_lite.graph.model import Model
    from ort_lite.load.parse_options import ParseOptions
    from ort_lite.load.source import ModelSource
    from ort_lite.options.options import SessionOptions
    from ort_lite.partition.cost.strategy import Strategy
    from ort_lite.partition.placement import PlacementRule
    from ort_lite.plugins import selection
    from ort_lite.session.opening import Params


class InferenceSession(Session):
    """A Session with every member that onnxruntime's InferenceSession has. Its arguments are those of
    `ort_lite.session.session.Session`.
    """

    _enable_fallback = True

    def __init__(
        self,
        path_or_bytes: "ModelSource | Model",
        sess_options: "SessionOptions | None" = None,
        providers: "Sequence[selection.ProviderEntry] | None" = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        params: "Params | None" = None,
        parse_options: "ParseOptions | None" = None,
        mmap: bool = False,
        placement_rules: "Sequence[PlacementRule]" = (),
        partitioning: "Strategy | str | None" = None,
        disabled_optimizers: Collection[str] | None = None,
        strict: bool | None = None,
        creation_timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            path_or_bytes,
            sess_options,
            providers,
            provider_options,
            params=params,
            parse_options=parse_options,
            mmap=mmap,
            placement_rules=placement_rules,
            partitioning=partitioning,
            disabled_optimizers=disabled_optimizers,
            strict=strict,
            creation_timeout=creation_timeout,
            **kwargs,
        )
        self._sess_options_initial = sess_options

    @staticmethod
    def _own_options(given: "SessionOptions | None") -> CompatibleOptions:
        return CompatibleOptions.of(given)

    def get_session_options(self) -> CompatibleOptions:
        """A copy: changing it changes nothing."""
        return CompatibleOptions.of(self._state.options)

    # Running

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, "OrtValue"],
        run_options: "RunOptions | None" = None,
        *,
        timeout: float | None = None,
    ) -> list["OrtValue"]:
        """Run with OrtValues in and out; neither side is copied. A value on a device is read there, if its reader is there.

        Outputs are on the CPU; `io_binding` keeps them elsewhere.
        """
        from ort_lite.compat.ort_value import OrtValue

        feed = {name: value.value() if value.device_tensor is None else value for name, value in input_dict_ort_values.items()}
        return [OrtValue(value) for value in self.run(output_names, feed, run_options, timeout=timeout)]

    def io_binding(self) -> "IOBinding":
        """A new IOBinding for this session."""
        from ort_lite.compat.io_binding import IOBinding

        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: "IOBinding", run_options: "RunOptions | None" = None, *, timeout: float | None = None
    ) -> None:
        """Runs on what is bound; results are in `iobinding.get_outputs()` and in the memory that outputs are bound to.

        A run that is ended may have written a part of these. `timeout`: as of `run`.
        """
        if timeout is None:
            iobinding.run(run_options)
            return
        from ort_lite.options.deadline import limited

        with limited(run_options, timeout) as own:
            iobinding.run(own)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """A tensor of zeros, on a device in memory of the session's own provider there. It may outlive the session.

        Raises InvalidArgument for a device on which the session has none.
        """
        from ort_lite.compat.io_binding import provider_of
        from ort_lite.compat.ort_value import OrtValue
        from ort_lite.tensors.device_tensor import device_named

        device = device_named(device_type, device_id)
        zeros = OrtValue.ortvalue_from_shape_and_type(shape, element_type)
        return zeros if device == CPU else OrtValue.on(provider_of(self._devices(), device), zeros.numpy())

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: "Callback | None" = None,
        user_data: Any = None,
        run_options: "RunOptions | None" = None,
        *,
        timeout: float | None = None,
    ) -> "PendingRun | None":
        """Run in a thread of the process's pool; the arrays that are fed must not change meanwhile.

        `callback` is called there as (results, user_data, error), where error is "" or what `run` raised, as text, with [] for results.
        Without a callback: something to `await`, or to ask for its `result()`. `timeout` counts from when the run
        begins. Raises InvalidArgument, at once, for a missing input.
        """
        from ort_lite.compat import background

        self._validate_input(input_feed if run_options is None else run_options.extend_feed(input_feed))
        names = None if output_names is None else list(output_names)
        call = partial(self.run, names, dict(input_feed), timeout=timeout)
        then = None if callback is None else background.calling(callback, user_data)
        pending = background.start(call, run_options, then)
        return pending if callback is None else None

    def _validate_input(self, feed_input_names: Collection[str]) -> None:
        missing = [
            arg.name for arg in self._state.inputs if arg.name not in feed_input_names and not arg.type.startswith("optional")
        ]
        if missing:
            came = ", ".join(map(repr, feed_input_names)) or "nothing"
            raise InvalidArgument(f"missing inputs {', '.join(map(repr, missing))}; fed were {came}").about(
                input=missing[0], got=came
            )

    def run_with_ortvaluevector(
        self,
        run_options: "RunOptions | None",
        feed_names: Sequence[str],
        feeds: Sequence["OrtValue"],
        fetch_names: Sequence[str],
        fetches: list["OrtValue"],
        fetch_devices: Sequence[Any],
    ) -> None:
        """Runs with values in the order of their names. `fetches` gets the outputs; values that it has are written to.

        Raises InvalidArgument where names and values are not as many.
        """
        if len(feed_names) != len(feeds) or len(fetches) > len(fetch_names) or len(fetch_names) != len(fetch_devices):
            raise InvalidArgument(
                f"run_with_ortvaluevector: {len(feed_names)} names for {len(feeds)} feeds, {len(fetch_names)} names for "
                f"{len(fetches)} fetches on {len(fetch_devices)} devices"
            )
        binding = self.io_binding()
        for name, value in zip(feed_names, feeds, strict=True):
            binding.bind_ortvalue_input(name, value)
        for index, name in enumerate(fetch_names):
            if index < len(fetches):
                binding.bind_ortvalue_output(name, fetches[index])
            else:
                device = device_named(fetch_devices[index])
                binding.bind_output(name, device.kind, device.id)
        binding.run(run_options)
        fetches[:] = binding.get_outputs()

    # What the session is

    def get_input_epdevices(self) -> "list[OrtEpDevice | None]":
        """The device that reads each input, in order; None for an input that nobody reads."""
        from ort_lite.compat.input_devices import input_devices

        return input_devices(self._prepared)

    def set_providers(
        self,
        providers: "Sequence[selection.ProviderEntry] | None" = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Prepares the session anew for other providers, as if it had been made with them; runs in flight end with the old ones.

        A strict session stays strict. Raises InvalidArgument where the session has not kept what it was made from (`load_params`),
        and what making one raises; the session is unchanged then.
        """
        self._remake("set_providers", self._arguments.replace(providers=providers, provider_options=provider_options), None)

    def get_provider_graph_assignment_info(self) -> list["OrtEpAssignedSubgraph"]:
        """The nodes of each partition. Raises Fail where the config entry `session.record_ep_graph_assignment_info` is not "1"."""
        from ort_lite.compat.assigned import assigned_subgraphs

        if self._state.options.config(config_keys.RECORD_ASSIGNMENT, "0") != "1":
            raise Fail(
                f'session config entry {config_keys.RECORD_ASSIGNMENT!r} must be "1" for get_provider_graph_assignment_info; '
                f"explain() answers without"
            )
        return assigned_subgraphs(self._state.explain().assignment)

    def get_input_memory_infos(self) -> list["OrtMemoryInfo"]:
        """Return, in the order of `get_inputs`, the memory of the partition that first reads each input."""
        return self._memory_infos("inputs", [arg.name for arg in self._state.inputs])

    def get_output_memory_infos(self) -> list["OrtMemoryInfo"]:
        """Return, in the order of `get_outputs`, the memory that each output is computed in."""
        return self._memory_infos("outputs", [arg.name for arg in self._state.outputs])

    def _memory_infos(self, side: str, names: Sequence[str]) -> list["OrtMemoryInfo"]:
        from ort_lite.compat.allocators import OrtMemoryInfo

        where = {
            value.name: partition.provider.device
            for partition in reversed(self._state.explain().assignment.levels[0].partitions)
            for value in getattr(partition, side)
        }
        return [OrtMemoryInfo.of(where.get(name)) for name in names]

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """Return no results: no provider tunes kernels by running them; a kernel's size is chosen when it is compiled."""
        return []

    def set_tuning_results(self, results: Sequence[Mapping[str, Any]], *, error_on_invalid: bool = False) -> None:
        """Results are for nobody here: a warning, or with `error_on_invalid` InvalidArgument."""
        if results:
            text = f"set_tuning_results: {len(results)} results are for providers that this session does not have"
            if error_on_invalid:
                raise InvalidArgument(text)
            log.warn(-1, text)

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for compatibility: no graph of launches is kept for an id."""

    # Names with an underscore that programs use all the same

    @property
    def _sess(self) -> "NativeFace":
        from ort_lite.compat.native_face import NativeFace

        return NativeFace(self)

    @property
    def _model_bytes(self) -> bytes | None:
        """Return the model that the session was created from, if it kept it."""
        return self._kept if isinstance(self._kept, bytes) else None

    @property
    def _sess_options(self) -> Any:
        return self.get_session_options()

    @property
    def _inputs_meta(self) -> Any:
        return self.get_inputs()

    @property
    def _outputs_meta(self) -> Any:
        return self.get_outputs()

    @property
    def _overridable_initializers(self) -> Any:
        return self.get_overridable_initializers()

    @property
    def _model_meta(self) -> Any:
        return self.get_modelmeta()

    @property
    def _providers(self) -> list[str]:
        return self.get_providers()

    @property
    def _provider_options(self) -> Any:
        return self.get_provider_options()

    @property
    def _fallback_providers(self) -> list[str]:
        """Nobody falls back behind the caller's back."""
        return ["CPUExecutionProvider"]

    # There is no fallback that these could turn on or off

    def disable_fallback(self) -> None:
        """Accepted for compatibility."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Accepted for compatibility."""
        self._enable_fallback = True
