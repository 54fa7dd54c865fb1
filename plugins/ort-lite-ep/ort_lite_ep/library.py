"""What onnxruntime calls, in Python: factories by registered name, their sessions' providers, and the partitions of those."""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable
from ctypes import POINTER, Structure, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p, cast, sizeof
from functools import partial
from typing import Any

from ort_lite.errors import OrtLiteError, ProviderError, describe, hint
from ort_lite.options.options import RunOptions
from ort_lite.plugins.selection import create
from ort_lite.provider import CPU, Device
from ort_lite.provider.ask import ask
from ort_lite_ep.c_api import VERSION, CApi
from ort_lite_ep.contexts import Context, ContextOptions, new_context_node
from ort_lite_ep.device_partition import DevicePartition
from ort_lite_ep.devices import Devices
from ort_lite_ep.graph import read_graph, read_model_path, read_parent
from ort_lite_ep.partition import HostedPartition
from ort_lite_ep.profiling import Profile, ProfiledPartition
from ort_lite_ep.provider import HostedProvider, devices_of, own_name, registered_names
from ort_lite_ep.reports import Reports
from ort_lite_ep.shim import HOOKS, Shim

_CPU = 0  # OrtHardwareDeviceType
_DEVICE = "device"  # the key in an OrtEpDevice's metadata
_FITS, _FITS_NOT = 1, 3  # OrtCompiledModelCompatibility
_PATIENCE = 10.0  # seconds that calls under way get to return when the interpreter ends
_PREFIX = "ep."
_PROVIDER, _PARTITION = 1, 2  # what C says was released; 0 is a factory


class _FusionOptions(Structure):
    """OrtNodeFusionOptions: onnxruntime need not pass constants to each run."""

    _fields_ = [("version", c_uint32), ("drop_constants", c_bool)]


class _Factory:
    """A registered name: its OrtEpFactory, and the provider's devices with the options of an instance for each."""

    def __init__(self, name: str) -> None:
        self.name, self.address = name, 0
        self.devices = devices_of(name)
        self.makers = {device: partial(create, own_name(name), dict(options)) for device, options in self.devices.items()}

    @property
    def away(self) -> bool:
        """Return True if a device has memory of its own."""
        return any(device != CPU for device in self.devices)

    def device(self, name: str | None) -> Device | None:
        """Return a device by the name that the metadata of its OrtEpDevice has."""
        return next((device for device in self.devices if str(device) == name), None)


class _Session:
    """A provider of one session: the HostedProvider, its OrtEp, its partitions by number, and the profile if there is one."""

    def __init__(self, provider: HostedProvider, device: Device | None) -> None:
        self.provider, self.device = provider, device
        self.address = 0
        self.partitions: list[int] = []
        self.profile: Profile | None = None

    @property
    def away(self) -> bool:
        """Return True if onnxruntime passes values in the memory of the provider's device."""
        return self.device not in (None, CPU)


class Library:
    """The providers of this process that onnxruntime uses. Each object has a number, which C passes back. Thread-safe."""

    def __init__(self) -> None:
        self._shim, self._numbers, self._lock = Shim(), itertools.count(1), threading.Lock()
        self._api: CApi | None = None
        self._factories: dict[int, _Factory] = {}
        self._sessions: dict[int, _Session] = {}
        self._partitions: dict[int, Any] = {}
        self._devices = Devices(self._shim)
        self._pid = os.getpid()
        self.reports = Reports()
        plain = {"release": self._release, "free_block": self._devices.free}
        hooks = {name: self._guard(getattr(self, f"_{name}")) for name in HOOKS if name not in plain}
        self._shim.open(hooks | plain)
        atexit.register(self._close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_child)

    def _close(self) -> None:
        """Let no more calls in, and wait for those under way."""
        end = time.monotonic() + _PATIENCE
        while self._shim.close() and time.monotonic() < end:
            time.sleep(0.001)

    def _begin_child(self) -> None:
        """Forget what other threads of the parent process were doing. Providers of the parent's sessions stay the parent's."""
        self._lock = threading.Lock()
        self._devices.begin_child()
        self._shim.forget_calls()

    def _guard(self, hook: Callable[..., None]) -> Callable[..., int | None]:
        """Return the hook for C: an exception becomes an error of onnxruntime with its message."""

        def call(*arguments: Any) -> int | None:
            try:
                hook(*arguments)
            except BaseException as error:  # noqa: BLE001  nothing may leave through C; onnxruntime raises it again
                assert self._api is not None, "the first hook has set it"
                return self._api.status(_message(error))
            return None

        return call

    @property
    def _known_api(self) -> CApi:
        assert self._api is not None, "the first hook has set it"
        return self._api

    # Factories

    def _create_factories(self, name: bytes, base: int, factories: int, room: int, count: int) -> None:
        with self._lock:
            if self._api is None:
                self._api = CApi(base)
        text, known = name.decode(), registered_names()
        if text not in known:
            raise ProviderError(
                f"no execution provider of ort-lite is registered as {text!r}{hint(text, known)}; "
                f"register the library under one of {', '.join(known)}"
            )
        number, factory = next(self._numbers), _Factory(text)
        factory.address = self._shim.new_factory(number, name, b"ort-lite", _version().encode(), factory.away)
        self._factories[number] = factory
        cast(factories, POINTER(c_void_p))[0] = factory.address
        cast(count, POINTER(c_size_t))[0] = 1

    def _supported_devices(self, number: int, devices: int, count: int, found: int, room: int, filled: int) -> None:
        """Offer the provider's devices. The hardware is the CPU for each of them: onnxruntime itself finds no other one."""
        api, factory = self._known_api, self._factories[number]
        host = next((d for d in _pointers(devices, count) if api.other("HardwareDevice_Type", d) == _CPU), None)
        if host is None:
            return
        offers: list[tuple[dict[str, Any], dict[str, Any], Device]]
        offers = [({_DEVICE: str(device)}, options, device) for device, options in factory.devices.items()] or [({}, {}, CPU)]
        for k, (metadata, options, device) in enumerate(offers[:room]):
            self._create_ep_device(factory, host, metadata, options, found + k * sizeof(c_void_p))
            if device != CPU:
                info = self._devices.register(api, device, factory.makers[device])
                api.call("EpDevice_AddAllocatorInfo", c_void_p.from_address(found + k * sizeof(c_void_p)), info)
            cast(filled, POINTER(c_size_t))[0] = k + 1

    def _create_ep_device(
        self, factory: _Factory, host: int, metadata: dict[str, Any], options: dict[str, Any], found: int
    ) -> None:
        api = self._known_api
        pairs = [api.new_pairs(entries) for entries in (metadata, options)]
        try:
            api.call("CreateEpDevice", factory.address, host, *pairs, found)
        finally:
            for each in pairs:
                api.other("ReleaseKeyValuePairs", each)

    def _check_compatibility(self, number: int, saved: bytes, found: int) -> None:
        """Say if compiled models of a provider can be loaded. A session that is created all the same gets the reason."""
        factory = self._factories[number]
        provider = next(iter(factory.makers.values()), partial(create, own_name(factory.name), {}))()
        why = ask(provider, "check_compatibility", saved.decode(), label=factory.name)
        c_int.from_address(found).value = _FITS if why is None else _FITS_NOT

    # Sessions

    def _create_provider(self, number: int, metadata: int, count: int, options: int, provider: int) -> None:
        factory, made = self._factories[number], next(self._numbers)
        own, entries, contexts = self._options(factory.name, options)
        chosen = [self._known_api.pairs(pairs).get(_DEVICE) for pairs in _pointers(metadata, count)]
        device = factory.device(chosen[0]) if chosen else None
        hosted = HostedProvider(factory.name, self._device_options(factory, device) | own, entries, contexts)
        if device is not None and hosted.provider.device != device:
            raise ProviderError(
                f"{factory.name} was chosen for {device}, and its options are of {hosted.provider.device}; "
                "choose one of onnxruntime.get_ep_devices() by SessionOptions.add_provider_for_devices"
            )
        session = self._sessions[made] = _Session(hosted, device)
        session.address = self._shim.new_provider(made, factory.name.encode(), hosted.hears)
        cast(provider, POINTER(c_void_p))[0] = session.address

    def _device_options(self, factory: _Factory, device: Device | None) -> dict[str, Any]:
        return {} if device is None else factory.devices[device]

    def _options(self, name: str, options: int) -> tuple[dict[str, str], dict[str, str], ContextOptions]:
        """Split the session's config entries into those of the provider, which have its name in front, and the others."""
        pairs = self._known_api.read("GetSessionOptionsConfigEntries", options)
        try:
            entries = self._known_api.pairs(pairs)
        finally:
            self._known_api.other("ReleaseKeyValuePairs", pairs)
        prefix = f"{_PREFIX}{name.lower()}."
        own = {key[len(prefix) :]: value for key, value in entries.items() if key.startswith(prefix)}
        others = {key: value for key, value in entries.items() if not key.startswith(_PREFIX)}
        return own, others, ContextOptions.read(entries)

    def _capability(self, number: int, graph: int, support: int) -> None:
        api, provider = self._known_api, self._sessions[number].provider
        fusion = _FusionOptions(VERSION, True)
        for nodes in provider.claim(read_graph(api, graph, copies=False), read_parent(api, graph)):
            api.add_nodes(support, nodes, fusion)
        self.reports.put(number, provider.report())

    def _compile(self, number: int, graphs: int, fused: int, count: int, partitions: int, contexts: int) -> None:
        """Compile all or none: onnxruntime does not release what was compiled before an error."""
        session = self._sessions[number]
        pairs = list(zip(_pointers(graphs, count), _pointers(fused, count), strict=True))
        made = [self._compile_one(session, graph, node) for graph, node in pairs]
        for k, (partition, context) in enumerate(made):
            own = next(self._numbers)
            self._partitions[own] = self._profiled(session, partition)
            session.partitions.append(own)
            cast(partitions, POINTER(c_void_p))[k] = self._shim.new_partition(own, session.away)
            if context is not None:
                cast(contexts, POINTER(c_void_p))[k] = new_context_node(self._known_api, *context)
                self._shim.set_compiler(session.address, context[1].attributes["ep_sdk_version"])

    def _compile_one(self, session: _Session, graph: int, node: int) -> tuple[Any, tuple[str, Context] | None]:
        """Return a partition, and what is saved of it under which name if the session saves compiled partitions."""
        api, hosted = self._known_api, session.provider
        model, path = read_graph(api, graph, copies=True).model, read_model_path(api, graph)
        hosted.restore_files(model, path)
        settled = hosted.compile(model)
        assert settled.compiled is not None, "there is a compiler"
        names = [
            [api.text("GetValueInfoName", info) for info in api.pointers(f"Node_{side}", node)] for side in ("Inputs", "Outputs")
        ]
        made: Any
        if session.away:
            made = DevicePartition(api, self._shim, self._devices, settled, hosted.provider, *names)
        else:
            made = HostedPartition(api, self._shim, settled.compiled.executable, *names)
        if not hosted.contexts.enable:
            return made, None
        name = api.text("Node_GetName", node)
        return made, (name, hosted.save(settled, name, path))

    def _created(self, number: int) -> None:
        self._sessions[number].provider.provider.on_session_initialization_end()

    # Runs

    def _compute(self, number: int, context: int, numbers: int, count: int) -> None:
        if os.getpid() != self._pid:
            raise ProviderError("the session was created before this process was forked; create it in the process that runs it")
        self._partitions[number].compute(context, (c_int64 * count).from_address(numbers)[:])

    def _run_start(self, number: int, options: int) -> None:
        self._sessions[number].provider.run_start(self._run_options(number, options))

    def _run_end(self, number: int, options: int, wait: bool) -> None:
        self._sessions[number].provider.run_end(self._run_options(number, options), wait)

    def _run_options(self, number: int, options: int) -> RunOptions:
        """Return the tag of a run and those of its config entries that the provider reads."""
        api, found = self._known_api, RunOptions()
        found.logid = api.text("RunOptionsGetRunTag", options)
        for key in self._sessions[number].provider.provider.config_keys:
            value = api.other("GetRunConfigEntry", options, key.encode())
            if value is not None:
                found.add_run_config_entry(key, value.decode())
        return found

    def _set_options(self, number: int, keys: int, values: int, count: int) -> None:
        texts = [[text.decode() for text in cast(array, POINTER(c_char_p))[:count]] for array in (keys, values)]
        self._sessions[number].provider.set_options(dict(zip(*texts, strict=True)))

    def _sync(self, number: int) -> None:
        self._sessions[number].provider.provider.sync()

    def _copy(self, numbers: int, count: int) -> None:
        self._devices.copy((c_int64 * count).from_address(numbers)[:])

    # Profiles

    def _start_profiling(self, number: int, offset: int) -> None:
        session = self._sessions[number]
        self._known_api.read_profile_functions()
        session.profile = Profile(session.provider.provider, offset)
        for own in session.partitions:
            self._partitions[own] = self._profiled(session, self._partitions[own])

    def _end_profiling(self, number: int, events: int) -> None:
        session = self._sessions[number]
        profile, session.profile = session.profile, None
        for own in session.partitions:
            self._partitions[own] = self._partitions[own].partition
        assert profile is not None, "it was started"
        profile.end(self._known_api, events)

    def _profiled(self, session: _Session, partition: Any) -> Any:
        """Return a partition that is recorded if the session is profiled. Other runs pay nothing."""
        return partition if session.profile is None else ProfiledPartition(partition, session.profile, session.provider.name)

    def _release(self, kind: int, number: int) -> None:
        if kind == _PARTITION:
            self._partitions.pop(number, None)
        elif kind == _PROVIDER:
            self._sessions.pop(number, None)
        elif (factory := self._factories.pop(number, None)) is not None:
            self._devices.forget(factory.makers.values())


def _pointers(address: int, count: int) -> list[int]:
    return [found or 0 for found in cast(address, POINTER(c_void_p))[:count]]


def _message(error: BaseException) -> str:
    """Return an error's message with its class, which onnxruntime does not keep."""
    if isinstance(error, OrtLiteError):
        notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
        return "; ".join([describe(error), *notes])
    return f"{type(error).__name__}: {error}"


def _version() -> str:
    from importlib.metadata import version

    return version("ort-lite-ep")
