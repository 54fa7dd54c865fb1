"""SessionOptions and RunOptions with all members of onnxruntime's: an extension of the core's options."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ort_lite import errors
from ort_lite.compat.chosen import Chosen, Delegate, OrtExecutionProviderDevicePolicy
from ort_lite.compat.context_data import OrtEpContextDataBuffer, ReadContext
from ort_lite.compat.global_threads import share_threads
from ort_lite.errors import Fail, InvalidArgument, format_error
from ort_lite.options import options
from ort_lite.options.config_keys import LAYERS_BY_NAME

if TYPE_CHECKING:
    from ort_lite.compat.ep_devices import OrtEpDevice


class Adapter(Protocol):
    """Parameters by name, such as a `LoraAdapter`."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the adapter, by name."""


class SessionOptions(options.SessionOptions):
    """The options of a session, with every member of onnxruntime's SessionOptions.

    The attributes are those of `ort_lite.options.options.SessionOptions`.
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
        """Return a copy of options of any class as an instance of this one; the defaults for None."""
        if type(given) is cls:
            return given.copy()
        made = cls()
        if given is not None:
            for name, value in vars(given.copy()).items():
                setattr(made, name, value)
        return made

    def _extras(self) -> dict[str, Any]:
        names = {"providers": [each.name for each in self._chosen]} if self._chosen else {}
        return super()._extras() | names | ({"provider_policy": self._policy} if self._policy is not None else {})

    # Providers, ignored by a session that is given `providers`

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Append a provider by name. Session creation checks if it is installed.

        A session that is given `providers` ignores these.
        """
        if not name:
            raise InvalidArgument("add_provider: got an empty name, expected that of an execution provider")
        self._chosen = (*self._chosen, Chosen(name, dict(options)))

    def add_provider_for_devices(self, devices: "Sequence[OrtEpDevice]", options: Mapping[str, str]) -> None:
        """Append the provider of these devices, with one instance per device.

        Raises InvalidArgument for an empty list, devices of several providers, and objects that `get_ep_devices` does not
        return.
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
        """Choose a provider by the preferred kind of device, followed by the CPU provider."""
        self._policy = OrtExecutionProviderDevicePolicy(policy)

    def set_provider_selection_policy_delegate(self, delegate: Delegate) -> None:
        """Choose devices by `delegate(ep_devices, model_metadata, runtime_metadata, max_selections)`."""
        if not callable(delegate):
            raise InvalidArgument(f"set_provider_selection_policy_delegate: got {delegate!r}, expected a function")
        self._policy = delegate

    @property
    def provider_choices(self) -> tuple[Chosen, ...]:
        """The providers that were added, in order."""
        return self._chosen

    @property
    def provider_policy(self) -> OrtExecutionProviderDevicePolicy | Delegate | None:
        """The policy or delegate that chooses providers if none was added; None if there is none."""
        return self._policy

    def choose_providers(self, metadata: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the chosen providers with their options for a model with this metadata.

        Raises the errors of the delegate, and ProviderError for a provider that is not installed.
        """
        chosen: Sequence[Chosen] = self._chosen
        if not chosen and self._policy is not None:
            from ort_lite.compat.ep_devices import select_by_policy

            chosen = select_by_policy(self._policy, metadata)
        return [(each.name, each.options) for each in chosen]

    def placement_rules(self, providers: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """Return the rules by layer name, and remarks. Raises InvalidArgument for a malformed entry."""
        setting = self.config(LAYERS_BY_NAME, "")
        if not setting:
            return [], []
        from ort_lite.compat.layer_assignment import layer_rules

        return layer_rules(setting, providers)

    # Initializers in memory

    def add_external_initializers(self, names: Sequence[str], ortvalues: Sequence[Any]) -> None:
        """Use values for initializers with external data; the files need not exist then.

        The values must not change. Raises InvalidArgument for lists of different lengths and for a repeated name. Session
        creation raises Fail for an initializer that does not exist or has no external data, and for another type or shape.
        """
        if len(names) != len(ortvalues):
            raise InvalidArgument(
                f"add_external_initializers: {len(names)} names and {len(ortvalues)} values; expected one for each"
            )
        _add_new(self._external_arrays, dict(zip(names, ortvalues, strict=True)), "add_external_initializers")

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Use the first `lengths` bytes of each buffer instead of an external data file.

        `names` are the locations stated in the model. Bytes are kept, other buffers are copied. Raises InvalidArgument for
        lists of different lengths, a repeated name and a buffer that is too short. Session creation raises Fail for a location
        that is missing.
        """
        if not len(names) == len(buffers) == len(lengths):
            counts = f"{len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths"
            raise InvalidArgument(f"add_external_initializers_from_files_in_memory: {counts}; expected one for each")
        made = {name: _bytes(name, *pair) for name, *pair in zip(names, buffers, lengths, strict=True)}
        _add_new(self._external_files, made, "add_external_initializers_from_files_in_memory")

    @property
    def external_initializers(self) -> tuple[Mapping[str, Any], Mapping[str, bytes]]:
        """The values by initializer name, and the bytes by file name."""
        return dict(self._external_arrays), dict(self._external_files)

    # Compiled contexts in memory

    def set_ep_context_data_read_func(self, read_func: ReadContext, max_data_size: int) -> None:
        """Read external contexts with `read_func(name, buffer)` instead of from files.

        Each context may have at most `max_data_size` bytes.
        """
        if max_data_size <= 0:
            raise InvalidArgument(
                f"set_ep_context_data_read_func: max_data_size is {max_data_size!r}, expected a number above 0"
            )
        self._context_reader = (read_func, int(max_data_size))

    def clear_ep_context_data_read_func(self) -> None:
        """Read external contexts from files again."""
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
            return buffer.contents()

        return read

    # Config entries, shared threads, custom operators

    def get_session_config_entry(self, key: str) -> str:
        """Return a config entry. Raises InvalidArgument if it was not set."""
        return _entry(self.config_entries, key, "session")

    def default_threads(self) -> None:
        """Replace negative thread counts by 0.

        Without `use_per_session_threads`, the counts are those of `set_global_thread_pool_sizes`.
        """
        share_threads(self)
        super().default_threads()

    def register_custom_ops_library(self, path: str) -> None:
        """Raise NotImplemented: operator libraries for onnxruntime's C interface are not supported."""
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
    """The options of a run, with every member of onnxruntime's RunOptions.

    The attributes are those of `ort_lite.options.options.RunOptions`.
    """

    _adapters: tuple[Adapter, ...] = ()

    def add_active_adapter(self, adapter: Adapter) -> None:
        """Feed the adapter's parameters, which are inputs or overridable initializers, in runs with these options.

        Raises InvalidArgument for an object that is not a LoraAdapter, and Fail for one that is not loaded.
        """
        if not hasattr(adapter, "parameters"):
            raise InvalidArgument(f"add_active_adapter: got {adapter!r}, expected a LoraAdapter")
        _ = adapter.parameters
        self._adapters = (*self._adapters, adapter)

    def extend_feed(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the feed with the parameters of the adapters. Raises InvalidArgument for a name that is fed twice."""
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
        """Return a config entry. Raises InvalidArgument if it was not set."""
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
