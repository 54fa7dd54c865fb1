"""SessionOptions and RunOptions with all that onnxruntime's have: the core's, and what its programs set beside them."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ort_lite import errors
from ort_lite.compat.chosen import Chosen, Delegate, EpDevice, OrtExecutionProviderDevicePolicy
from ort_lite.compat.context_data import OrtEpContextDataBuffer, ReadContext
from ort_lite.compat.global_threads import share_threads
from ort_lite.errors import Fail, InvalidArgument, format_error
from ort_lite.options import options
from ort_lite.options.config_keys import LAYERS_BY_NAME


class Adapter(Protocol):
    """Parameters by name, as a `LoraAdapter` has them."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the adapter, by name."""


class SessionOptions(options.SessionOptions):
    """Options of a session with every member that onnxruntime's have. Attributes are those of
    `ort_lite.options.options.SessionOptions`.
    """

    _chosen: tuple[Chosen, ...] = ()
    _policy: OrtExecutionProviderDevicePolicy | Delegate | None = None
    _context_reader: tuple[ReadContext, int] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._external_arrays: dict[str, Any] = {}
        self._external_files: dict[str, bytes] = {}

    @classmethod
    def of(cls, given: options.SessionOptions | None) -> "SessionOptions":
        """A copy of the options, of this class whatever class they are of; the defaults for None."""
        made = cls()
        if given is not None:
            for name, value in vars(given.copy()).items():
                setattr(made, name, value)
        return made

    # Providers. A session that is given `providers` does not look at these.

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a provider by its name, after those that are there. Whether it is installed is looked up when a session is made."""
        if not name:
            raise InvalidArgument("add_provider: got an empty name, expected that of an execution provider")
        self._chosen = (*self._chosen, Chosen(name, dict(options)))

    def add_provider_for_devices(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> None:
        """Adds the provider of these devices, an instance for each, after those that are there.

        Raises InvalidArgument for no device, for those of several providers, and for what `get_ep_devices` does not list.
        """
        listed = list(devices)
        for device in listed:
            if not hasattr(device, "ep_name"):
                raise InvalidArgument(
                    f"add_provider_for_devices: got {device!r}, expected what ort_lite.get_ep_devices() lists"
                )
        names = sorted({device.ep_name for device in listed})
        if len(names) != 1:
            what = f"devices of {' and '.join(names)}" if names else "no device"
            raise InvalidArgument(f"add_provider_for_devices: got {what}, expected one or more of one execution provider")
        made = (Chosen(device.ep_name, {**device.instance_options, **options}) for device in listed)
        self._chosen = (*self._chosen, *made)

    def has_providers(self) -> bool:
        """Return True if these options choose the providers."""
        return bool(self._chosen) or self._policy is not None

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """The session takes a provider for the kind of device that is preferred, and the CPU's behind it."""
        self._policy = OrtExecutionProviderDevicePolicy(policy)

    def set_provider_selection_policy_delegate(self, delegate: Delegate) -> None:
        """Choose devices by `delegate(ep_devices, model_metadata, runtime_metadata, max_selections)`."""
        if not callable(delegate):
            raise InvalidArgument(f"set_provider_selection_policy_delegate: got {delegate!r}, expected a function")
        self._policy = delegate

    @property
    def chosen_providers(self) -> tuple[Chosen, ...]:
        """The providers that were added, in order."""
        return self._chosen

    @property
    def provider_policy(self) -> OrtExecutionProviderDevicePolicy | Delegate | None:
        """The policy or function that chooses a provider if none was added; None if there is none."""
        return self._policy

    def choose_providers(self, metadata: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
        """See the base class. Raises what the delegate raises, and ProviderError for a provider that is not installed."""
        from ort_lite.compat.ep_devices import chosen_by

        return [(each.name, each.options) for each in chosen_by(self, metadata)]

    def placement_rules(self, providers: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """The rules by layer name. Raises InvalidArgument where they make no sense."""
        setting = self.config(LAYERS_BY_NAME, "")
        if not setting:
            return [], []
        from ort_lite.compat.layer_assignment import layer_rules

        return layer_rules(setting, providers)

    # Initializers that are in no file

    def add_external_initializers(self, names: Sequence[str], ortvalues: Sequence[Any]) -> None:
        """Uses values in place of initialisers whose data is in files, which need not be there then. The values must not change.

        Raises InvalidArgument for lists of different lengths and for a name that has one already; making the session raises Fail for
        one that the model lacks, or has inline, and for another type or shape.
        """
        if len(names) != len(ortvalues):
            raise InvalidArgument(
                f"add_external_initializers: {len(names)} names and {len(ortvalues)} values; expected one for each"
            )
        _add_new(self._external_arrays, dict(zip(names, ortvalues, strict=True)), "add_external_initializers")

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Uses the bytes of `buffers`, as many as `lengths` say, in place of the files that the model's external data is in.

        `names` are the locations as the model gives them. Bytes are kept, other buffers copied. Raises InvalidArgument for lists of
        different lengths, a name that has one already and a buffer that is shorter; making the session raises Fail for a location
        that has none.
        """
        if not len(names) == len(buffers) == len(lengths):
            counts = f"{len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths"
            raise InvalidArgument(f"add_external_initializers_from_files_in_memory: {counts}; expected one for each")
        made = {name: _bytes(name, *pair) for name, *pair in zip(names, buffers, lengths, strict=True)}
        _add_new(self._external_files, made, "add_external_initializers_from_files_in_memory")

    @property
    def external_initializers(self) -> tuple[Mapping[str, Any], Mapping[str, bytes]]:
        """Values by the names of initialisers, and bytes by those of files."""
        return dict(self._external_arrays), dict(self._external_files)

    # Compiled contexts that are in no file

    def set_ep_context_data_read_func(self, read_func: ReadContext, max_data_size: int) -> None:
        """Contexts that a compiled model has outside of itself come from `read_func(name, buffer)`, not from files beside it; at most
        `max_data_size` bytes each.
        """
        if max_data_size <= 0:
            raise InvalidArgument(
                f"set_ep_context_data_read_func: max_data_size is {max_data_size!r}, expected a number above 0"
            )
        self._context_reader = (read_func, int(max_data_size))

    def clear_ep_context_data_read_func(self) -> None:
        """Contexts come from files again."""
        self._context_reader = None

    def context_reader(self) -> Callable[[str], bytes] | None:
        """Return a function that reads a context by its name, or None if contexts are read from files.

        The function raises Fail if the program's own function raises, or allocates nothing.
        """
        if self._context_reader is None:
            return None
        function, most = self._context_reader

        def read(name: str) -> bytes:
            buffer = OrtEpContextDataBuffer(most)
            try:
                function(name, buffer)
            except Exception as error:  # the user's code
                raise Fail(
                    f"set_ep_context_data_read_func: reading the context {name!r} failed: {format_error(error)}"
                ) from error
            if not buffer.is_allocated:
                raise Fail(
                    f"set_ep_context_data_read_func: for the context {name!r} nothing was allocated; call buffer.allocate"
                )
            return buffer.taken()

        return read

    # What the process shares, and names of other releases

    def get_session_config_entry(self, key: str) -> str:
        """Raises InvalidArgument when it was not set."""
        return _entry(self.config_entries, key, "session")

    def default_threads(self) -> None:
        """See the base class; without `use_per_session_threads` the numbers are those of `set_global_thread_pool_sizes`."""
        share_threads(self)
        super().default_threads()

    def register_custom_ops_library(self, path: str) -> None:
        """Raises NotImplemented: libraries of operators for onnxruntime's C interface are not loaded."""
        raise errors.NotImplemented(
            f"register_custom_ops_library({os.fspath(path)!r}): libraries for onnxruntime's C interface are not loaded; write "
            "the operators as a provider (docs/writing-a-provider.md, `ort_lite.provider.kernels`), in a package or by "
            "register_provider()"
        )

    @property
    def other_optimizers(self) -> frozenset[str]:
        """Return the optimizers of onnxruntime's releases."""
        from ort_lite.compat.optimizers import OPTIMIZERS

        return OPTIMIZERS


class RunOptions(options.RunOptions):
    """Options of a run with every member that onnxruntime's have. Attributes are those of `ort_lite.options.options.RunOptions`."""

    _adapters: tuple[Adapter, ...] = ()

    def add_active_adapter(self, adapter: Adapter) -> None:
        """Runs with these options are fed the adapter's parameters too: inputs, or initialisers that a feed may replace.

        Raises InvalidArgument for what is no LoraAdapter, or one into which nothing was loaded.
        """
        if not hasattr(adapter, "parameters"):
            raise InvalidArgument(f"add_active_adapter: got {adapter!r}, expected a LoraAdapter")
        _ = adapter.parameters
        self._adapters = (*self._adapters, adapter)

    def extend_feed(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """The feed with the parameters of the adapters. Raises InvalidArgument for a name that is fed twice."""
        if not self._adapters:
            return feed
        whole = dict(feed)
        for adapter in self._adapters:
            for name, value in adapter.parameters.items():
                if name in whole:
                    raise InvalidArgument(
                        f"parameter {name!r} of an active adapter is fed already, by the caller or by another adapter; feed it once"
                    ).about(input=name)
                whole[name] = value
        return whole

    def get_run_config_entry(self, key: str) -> str:
        """Raises InvalidArgument when it was not set."""
        return _entry(self.config_entries, key, "run")


def _add_new(known: dict[str, Any], given: Mapping[str, Any], who: str) -> None:
    if twice := known.keys() & given.keys():
        raise InvalidArgument(f"{who}: {min(twice)!r} was added before")
    known.update(given)


def _bytes(name: str, buffer: Any, length: int) -> bytes:
    held = buffer if isinstance(buffer, bytes) else memoryview(buffer).tobytes()
    if not 0 <= length <= len(held):
        raise InvalidArgument(f"the buffer of {name!r} has {len(held)} bytes; got a length of {length}")
    return held if length == len(held) else held[:length]


def _entry(entries: Mapping[str, str], key: str, what: str) -> str:
    if key not in entries:
        owner = "SessionOptions" if what == "session" else "RunOptions"
        raise InvalidArgument(f"{owner} does not have configuration with key: {key}; add_{what}_config_entry sets one")
    return entries[key]
