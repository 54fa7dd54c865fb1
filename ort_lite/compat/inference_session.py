"""InferenceSession: a Session with onnxruntime's remaining members."""

import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.compat.ort_options import SessionOptions as CompatibleOptions
from ort_lite.errors import Fail, InvalidArgument
from ort_lite.options import config_keys
from ort_lite.provider.provider import CPU
from ort_lite.session.session import Session
from ort_lite.tensors.device_tensor import parse_device

if TYPE_CHECKING:
    from ort_lite.compat.assigned import OrtEpAssignedSubgraph
    from ort_lite.compat.async_runs import Callback, PendingRun
    from ort_lite.compat.ep_devices import OrtEpDevice
    from ort_lite.compat.io_binding import IOBinding
    from ort_lite.compat.native_face import NativeFace
    from ort_lite.compat.ort_memory import OrtMemoryInfo
    from ort_lite.compat.ort_options import RunOptions
    from ort_lite.compat.ort_value import OrtValue
    from ort_lite.graph.model import Model
    from ort_lite.load.parse_options import ParseOptions
    from ort_lite.load.source import ModelSource
    from ort_lite.options.options import SessionOptions
    from ort_lite.partition.cost.strategy import Strategy
    from ort_lite.partition.placement import PlacementRule
    from ort_lite.plugins import selection
    from ort_lite.session.opening import Params


_MODEL_CONFIG = "ORT_LOAD_CONFIG_FROM_MODEL"
"""onnxruntime's environment variable: "1" reads the session options in the metadata of each model."""


class InferenceSession(Session):
    """A model that is ready to run, with every member of onnxruntime's InferenceSession.

    `run` may be called from several threads at once. The arguments are described in `ort_lite.session.session.Session`;
    `read_config_from_model=1` reads session options from the model's metadata (see `ort_lite.compat.model_config`).
    `enable_fallback` is onnxruntime's and has no effect. An unknown keyword is ignored with a warning, as in onnxruntime.
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
        verify: Any = None,
        **unknown: Any,
    ) -> None:
        options = sess_options
        if int(unknown.pop("read_config_from_model", os.environ.get(_MODEL_CONFIG) == "1")) == 1:
            from ort_lite.compat.model_config import apply_model_config

            options = CompatibleOptions.of(sess_options)
            apply_model_config(options, path_or_bytes)
        super().__init__(
            path_or_bytes,
            options,
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
            verify=verify,
            **unknown,
        )
        self._sess_options_initial = sess_options

    @staticmethod
    def _own_options(given: "SessionOptions | None") -> CompatibleOptions:
        return CompatibleOptions.of(given)

    def get_session_options(self) -> CompatibleOptions:
        """Return a copy of the session's options."""
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
        """Run with OrtValues as inputs and outputs, without copying either.

        A value on a device is read there if its reader is on that device. Outputs are on the CPU; use `io_binding` to keep them
        on a device.
        """
        from ort_lite.compat.ort_value import OrtValue

        feed = {name: value.value() if value.device_tensor is None else value for name, value in input_dict_ort_values.items()}
        if timeout is None:
            return [OrtValue(value) for value in self._start_run(output_names, feed, run_options, {})]
        from ort_lite.options.deadline import limit_run

        with limit_run(run_options, timeout) as own:
            return [OrtValue(value) for value in self._start_run(output_names, feed, own, {})]

    def io_binding(self) -> "IOBinding":
        """Return a new IOBinding for this session."""
        from ort_lite.compat.io_binding import IOBinding

        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: "IOBinding", run_options: "RunOptions | None" = None, *, timeout: float | None = None
    ) -> None:
        """Run with bound inputs and outputs. Returns when the work is queued, although a device may not have finished it.

        Reading a result waits for it, and an error of a device surfaces at the next wait (docs/concurrency.md). Bound arrays may be
        overwritten when the call returns. The run entry "disable_synchronize_execution_providers" set to "0" makes it wait.

        Results are in `iobinding.get_outputs()` and in the memory of bound outputs, which a cancelled run may have written in
        part. `timeout` is in seconds, as in `run`.
        """
        if timeout is None:
            iobinding.run(run_options)
            return
        from ort_lite.options.deadline import limit_run

        with limit_run(run_options, timeout) as own:
            iobinding.run(own)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """Create a tensor of zeros on a device, in memory of the session's provider there.

        The value may outlive the session. Raises InvalidArgument if the session has no provider on the device.
        """
        from ort_lite.compat.io_binding import provider_of
        from ort_lite.compat.ort_value import OrtValue

        device = parse_device(device_type, device_id)
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
        """Run in a thread of the process's pool. The fed arrays must not change meanwhile.

        With a callback, it is called in that thread as (results, user_data, error): `error` is "" after success, otherwise the
        error text with [] as results. Without one, a PendingRun is returned: `await` it or call its `result()`. `timeout`
        (seconds) starts when the run starts. Raises InvalidArgument immediately for a missing input.
        """
        from ort_lite.compat import async_runs

        self._validate_input(input_feed if run_options is None else run_options.extend_feed(input_feed))
        names = None if output_names is None else list(output_names)
        call = partial(self.run, names, dict(input_feed), timeout=timeout)
        then = None if callback is None else async_runs.calling(callback, user_data)
        pending = async_runs.start(call, run_options, then)
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
        """Run with values in the order of the given names and store the outputs in `fetches`.

        Values that `fetches` already holds are overwritten. Raises InvalidArgument if names and values differ in number.
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
                device = parse_device(fetch_devices[index])
                binding.bind_output(name, device.kind, device.id)
        binding.run(run_options)
        fetches[:] = binding.get_outputs()

    # Description

    def get_input_epdevices(self) -> "list[OrtEpDevice | None]":
        """Return the device that reads each input, in order; None for an unused input."""
        from ort_lite.compat.input_devices import input_devices

        return input_devices(self._stage_results)

    def set_providers(
        self,
        providers: "Sequence[selection.ProviderEntry] | None" = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Prepare the session again for other providers. Runs in flight finish with the old ones.

        A strict session stays strict. Raises InvalidArgument if the session has not kept its source (see `load_params`) and for
        a name that is neither installed nor onnxruntime's, and the errors of session creation; the session is unchanged then.
        """
        from ort_lite.plugins.selection import get_all_providers

        known = get_all_providers()
        for entry in () if self._state.options.strict or isinstance(providers, str) else providers or ():
            name = entry[0] if isinstance(entry, tuple) and entry else entry
            if isinstance(name, str) and name not in known:
                raise InvalidArgument(f"Unknown Provider Type: {name}; expected one of {', '.join(known)}")
        self._remake("set_providers", self._arguments.replace(providers=providers, provider_options=provider_options), None)

    def get_provider_graph_assignment_info(self) -> list["OrtEpAssignedSubgraph"]:
        """Return the nodes of each partition.

        Raises Fail unless the config entry `session.record_ep_graph_assignment_info` is "1".
        """
        from ort_lite.compat.assigned import subgraphs_of

        if self._state.options.config(config_keys.RECORD_ASSIGNMENT, "0") != "1":
            raise Fail(
                f'Session configuration entry {config_keys.RECORD_ASSIGNMENT!r} must be set to "1" for '
                "get_provider_graph_assignment_info; explain() answers without"
            )
        return subgraphs_of(self._state.explain().assignment)

    def get_input_memory_infos(self) -> list["OrtMemoryInfo"]:
        """Return the memory of the partition that first reads each input, in the order of `get_inputs`."""
        return self._memory_infos("inputs", [arg.name for arg in self._state.inputs])

    def get_output_memory_infos(self) -> list["OrtMemoryInfo"]:
        """Return the memory that each output is computed in, in the order of `get_outputs`."""
        return self._memory_infos("outputs", [arg.name for arg in self._state.outputs])

    def _memory_infos(self, side: str, names: Sequence[str]) -> list["OrtMemoryInfo"]:
        from ort_lite.compat.ort_memory import OrtMemoryInfo

        where = {
            value.name: partition.device_of(value)
            for partition in reversed(self._state.explain().assignment.levels[0].partitions)
            for value in getattr(partition, side)
        }
        return [OrtMemoryInfo.of(where.get(name)) for name in names]

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """Return an empty list: providers choose kernel sizes when compiling instead of tuning them."""
        return []

    def set_tuning_results(self, results: Sequence[Mapping[str, Any]], *, error_on_invalid: bool = False) -> None:
        """Warn that tuning results have no effect, or raise InvalidArgument with `error_on_invalid`."""
        if results:
            text = f"set_tuning_results: {len(results)} results are for providers that this session does not have"
            if error_on_invalid:
                raise InvalidArgument(text)
            log.warn(-1, text)

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Do nothing. Accepted for compatibility: captured calls belong to a binding, and are released with it."""

    # Private names of onnxruntime that programs use

    @property
    def _sess(self) -> "NativeFace":
        from ort_lite.compat.native_face import NativeFace

        return NativeFace(self)

    @property
    def _model_bytes(self) -> bytes | None:
        """The bytes that the session was created from, if it kept them."""
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
        """The CPU provider: a session never changes its providers by itself."""
        return ["CPUExecutionProvider"]

    # Fallback, which does not exist here

    def disable_fallback(self) -> None:
        """Clear the fallback flag. Accepted for compatibility: sessions never fall back by themselves."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Set the fallback flag. Accepted for compatibility: sessions never fall back by themselves."""
        self._enable_fallback = True
