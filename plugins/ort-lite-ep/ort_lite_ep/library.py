"""The functions that onnxruntime calls: factories by registered name, the providers of their sessions, the partitions of those."""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p, cast, string_at
from functools import cache
from typing import Any

from ort_lite.errors import OrtLiteError, ProviderError, describe, hint
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.provider import CPU, CURRENT, Device, ExecutionProvider
from ort_lite.record import Record, field
from ort_lite.session.settle import Settled
from ort_lite_ep.c_api import VERSION, CApi
from ort_lite_ep.contexts import Context, ContextOptions, new_context_node, read_model_path
from ort_lite_ep.device_partition import DevicePartition
from ort_lite_ep.devices import Devices
from ort_lite_ep.factories import Factory
from ort_lite_ep.graph import read_graph, read_parent
from ort_lite_ep.partition import HostedPartition
from ort_lite_ep.profiling import ProfiledPartition, Profiles
from ort_lite_ep.provider import HostedProvider, registered_names
from ort_lite_ep.reports import Reports
from ort_lite_ep.shim import HOOKS, Shim

_PATIENCE = 10.0  # seconds that calls under way get to return when the interpreter ends
_PREFIX = "ep."
_PROVIDER, _PARTITION = 1, 2  # what C says was released; 0 is a factory


class _FusionOptions(Structure):
    """OrtNodeFusionOptions: onnxruntime need not pass constants to each run."""

    _fields_ = [("version", c_uint32), ("drop_constants", c_bool)]


class _Inherited:
    """A partition of a session that was created before this process was forked."""

    def compute(self, context: int, described: bytes) -> None:
        raise ProviderError("the session was created before this process was forked; create it in the process that runs it")


class _Session:
    """A provider of one session: the HostedProvider, the chosen device, its OrtEp, its partitions by number, its profiles.

    It keeps the factory alive, which copies feeds to the device, even when the library was unregistered meanwhile.
    """

    def __init__(self, provider: HostedProvider, device: Device | None, factory: Factory) -> None:
        self.provider, self.device, self._factory = provider, device, factory
        self.address = 0
        self.partitions: list[int] = []
        self.profiles = Profiles(provider.provider)

    @property
    def away(self) -> bool:
        """Return True if onnxruntime passes values in the memory of the provider's device."""
        return self.device not in (None, CPU)

    def wrap_for_profile(self, partition: Any) -> Any:
        """Return a partition that is recorded if the session is profiled."""
        return ProfiledPartition(partition, self.profiles, self.provider.name) if self.profiles else partition


class _Runs(threading.local):
    """The options of the runs around those that are under way in a thread."""

    def __init__(self) -> None:
        self.outer = list[RunOptions | None]()


class Watch(Record, frozen=False, eq=False):
    """A record of the calls that onnxruntime makes on one thread, for tests of providers.

    `provider` is the instance that a new session uses, with `options` besides those that onnxruntime passes on. `settled` are its
    compiled graphs, and `errors` what calls raised.
    """

    provider: ExecutionProvider | None
    options: SessionOptions | None
    settled: list[Settled] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)


class Library:
    """The providers of this process that onnxruntime uses. Each object has a number, which C passes back. Thread-safe."""

    def __init__(self) -> None:
        self._shim, self._numbers, self._lock = Shim(), itertools.count(1), threading.Lock()
        self._api: CApi | None = None
        self._factories: dict[int, Factory] = {}
        self._sessions: dict[int, _Session] = {}
        self._partitions: dict[int, Any] = {}
        self._devices, self._runs = Devices(self._shim), _Runs()
        self._thread = threading.local()
        self.reports = Reports()
        plain = {"release": self._release, "free_block": self._devices.free}
        hooks = {name: self._guard(getattr(self, f"_{name}")) for name in HOOKS if name not in plain}
        self._shim.open(hooks | plain)
        atexit.register(self._close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_child)

    def _close(self) -> None:
        """Let no more calls in, and wait for those under way.

        A daemon thread that is between two runs gets the time to begin the next one, in which C holds it.
        """
        end = time.monotonic() + _PATIENCE
        while self._shim.close() and time.monotonic() < end:
            time.sleep(0.001)
        if threading.active_count() > 1:
            time.sleep(0.02)

    def _begin_child(self) -> None:
        """Forget what other threads of the parent process were doing. The parent's sessions stay the parent's."""
        self._lock = threading.Lock()
        self._partitions = dict.fromkeys(self._partitions, _Inherited())
        self._devices.begin_child()
        self._shim.forget_calls()

    @contextmanager
    def watch(self, provider: ExecutionProvider | None = None, options: SessionOptions | None = None) -> Iterator[Watch]:
        """Watch the calls of this thread. A session that is created meanwhile uses the provider and the options, if given."""
        self._thread.watch = made = Watch(provider, options)
        try:
            yield made
        finally:
            del self._thread.watch

    @property
    def _watch(self) -> Watch | None:
        return getattr(self._thread, "watch", None)

    def _guard(self, hook: Callable[..., None]) -> Callable[..., int | None]:
        """Return the hook for C: an exception becomes an error of onnxruntime with its message."""

        def call(*arguments: Any) -> int | None:
            try:
                hook(*arguments)
            except BaseException as error:  # noqa: BLE001  nothing may leave through C; onnxruntime raises it again
                if (watch := self._watch) is not None:
                    watch.errors.append(error)
                return self._known_api.status(_message(error))
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
        number, factory = next(self._numbers), Factory(text)
        factory.address = self._shim.new_factory(number, name, b"ort-lite", _version().encode(), factory.away)
        self._factories[number] = factory
        cast(factories, POINTER(c_void_p))[0] = factory.address
        cast(count, POINTER(c_size_t))[0] = 1

    def _supported_devices(self, number: int, devices: int, count: int, found: int, room: int, filled: int) -> None:
        offered = self._factories[number].offer(self._known_api, self._devices, _pointers(devices, count), found, room)
        cast(filled, POINTER(c_size_t))[0] = offered

    def _check_compatibility(self, number: int, saved: bytes, found: int) -> None:
        c_int.from_address(found).value = self._factories[number].fits(saved.decode())

    # Sessions

    def _create_provider(self, number: int, metadata: int, count: int, options: int, provider: int) -> None:
        factory, made = self._factories[number], next(self._numbers)
        own, entries, contexts = self._options(factory.name, options)
        watch, device = self._watch or Watch(None, None), factory.device(self._known_api.pairs(_pointers(metadata, 1)[0]))
        given = {} if watch.provider is not None else factory.options(device, own, alone=count == 1)
        hosted = HostedProvider(factory.name, given, entries, contexts, watch.provider, watch.options)
        factory.check_device(hosted.provider, device)
        session = self._sessions[made] = _Session(hosted, device, factory)
        session.address = self._shim.new_provider(made, factory.name.encode(), hosted.hears)
        cast(provider, POINTER(c_void_p))[0] = session.address

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
            self._partitions[own] = session.wrap_for_profile(partition)
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
        if (watch := self._watch) is not None:
            watch.settled.append(settled)
        names = [
            [api.text("GetValueInfoName", info) for info in api.pointers(f"Node_{side}", node)]
            for side in ("Inputs", "Outputs")
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

    def _end_creation(self, number: int) -> None:
        self._sessions[number].provider.provider.on_session_initialization_end()

    # Runs

    def _compute(self, number: int, context: int, numbers: int, count: int) -> None:
        self._partitions[number].compute(context, string_at(numbers, 8 * count))

    def _run_start(self, number: int, options: int) -> None:
        """Pass the start of a run on. Until its end, `run_options()` in this thread returns its options."""
        found = self._run_options(options)
        self._runs.outer.append(CURRENT.options)
        CURRENT.options = found
        self._sessions[number].provider.run_start(found)

    def _run_end(self, number: int, options: int, wait: bool) -> None:
        found = CURRENT.options or self._run_options(options)
        CURRENT.options = self._runs.outer.pop() if self._runs.outer else None
        self._sessions[number].provider.run_end(found, wait)

    def _run_options(self, options: int) -> RunOptions:
        """Return the tag of a run and those of its config entries that any provider reads."""
        api, found = self._known_api, RunOptions()
        found.logid = api.text("RunOptionsGetRunTag", options)
        for key in {key for session in list(self._sessions.values()) for key in session.provider.provider.config_keys}:
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

    def _start_profiling(self, number: int, profiler: int, offset: int) -> None:
        session = self._sessions[number]
        session.profiles.start(profiler, offset)
        self._known_api.read_profile_functions()
        self._swap_partitions(session)

    def _end_profiling(self, number: int, profiler: int, events: int) -> None:
        session = self._sessions[number]
        session.profiles.end(self._known_api, profiler, events)
        self._swap_partitions(session)

    def _swap_partitions(self, session: _Session) -> None:
        """Record the partitions of a session while it is profiled. Other runs pay nothing."""
        for own in session.partitions:
            partition = self._partitions[own]
            plain = partition.partition if isinstance(partition, ProfiledPartition) else partition
            self._partitions[own] = session.wrap_for_profile(plain)

    def _release(self, kind: int, number: int) -> None:
        if kind == _PARTITION:
            self._partitions.pop(number, None)
        elif kind == _PROVIDER:
            if (session := self._sessions.pop(number, None)) is not None:
                session.profiles.close()
        else:
            self._factories.pop(number, None)


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


@cache
def library() -> Library:
    """Return the library of this process, which is loaded by the first call."""
    return Library()
