"""What onnxruntime calls, in Python: factories by registered name, their sessions' providers, and the partitions of those."""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_bool, c_char_p, c_int64, c_size_t, c_uint32, c_void_p, cast
from functools import cache
from typing import Any

from ort_lite.errors import OrtLiteError, ProviderError, describe, hint
from ort_lite.options.options import RunOptions, SessionOptions
from ort_lite.provider import ExecutionProvider
from ort_lite.record import Record, field
from ort_lite.session.settle import Settled
from ort_lite_ep.c_api import VERSION, CApi
from ort_lite_ep.graph import read_graph, read_parent
from ort_lite_ep.partition import HostedPartition
from ort_lite_ep.provider import HostedProvider, registered_names
from ort_lite_ep.reports import Reports
from ort_lite_ep.shim import HOOKS, Shim

_CPU = 0  # OrtHardwareDeviceType
_PATIENCE = 10.0  # seconds that calls under way get to return when the interpreter ends
_PREFIX = "ep."
_PROVIDER, _PARTITION = 1, 2  # what C says was released; 0 is a factory


class _FusionOptions(Structure):
    """OrtNodeFusionOptions: onnxruntime need not pass constants to each run."""

    _fields_ = [("version", c_uint32), ("drop_constants", c_bool)]


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
        self._factories: dict[int, tuple[str, int]] = {}
        self._providers: dict[int, HostedProvider] = {}
        self._partitions: dict[int, HostedPartition] = {}
        self._pid, self._thread = os.getpid(), threading.local()
        self.reports = Reports()
        hooks = {name: self._guard(getattr(self, f"_{name}")) for name in HOOKS if name != "release"}
        self._shim.open(hooks | {"release": self._release})
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
        number = next(self._numbers)
        made = self._shim.new_factory(number, name, b"ort-lite", _version().encode())
        self._factories[number] = (text, made)
        cast(factories, POINTER(c_void_p))[0] = made
        cast(count, POINTER(c_size_t))[0] = 1

    def _supported_devices(self, number: int, devices: int, count: int, found: int, room: int, filled: int) -> None:
        """Offer the provider on the CPU, whatever device it drives itself: onnxruntime knows no other one."""
        api, (_, factory) = self._known_api, self._factories[number]
        for device in cast(devices, POINTER(c_void_p))[:count]:
            if room and api.other("HardwareDevice_Type", device) == _CPU:
                api.call("CreateEpDevice", factory, device, None, None, found)
                cast(filled, POINTER(c_size_t))[0] = 1
                return

    # Sessions

    def _create_provider(self, number: int, metadata: int, count: int, options: int, provider: int) -> None:
        name, _ = self._factories[number]
        own, entries = self._options(name, options)
        watch, made = self._watch or Watch(None, None), next(self._numbers)
        hosted = HostedProvider(name, own, entries, watch.provider, watch.options)
        self._providers[made] = hosted
        cast(provider, POINTER(c_void_p))[0] = self._shim.new_provider(made, name.encode(), hosted.hears_runs)

    def _options(self, name: str, options: int) -> tuple[dict[str, str], dict[str, str]]:
        """Split the session's config entries into those of the provider, which have its name in front, and the others."""
        pairs = self._known_api.read("GetSessionOptionsConfigEntries", options)
        try:
            entries = self._known_api.pairs(pairs)
        finally:
            self._known_api.other("ReleaseKeyValuePairs", pairs)
        prefix = f"{_PREFIX}{name.lower()}."
        own = {key[len(prefix) :]: value for key, value in entries.items() if key.startswith(prefix)}
        return own, {key: value for key, value in entries.items() if not key.startswith(_PREFIX)}

    def _capability(self, number: int, graph: int, support: int) -> None:
        api, provider = self._known_api, self._providers[number]
        fusion = _FusionOptions(VERSION, True)
        for nodes in provider.claim(read_graph(api, graph, copies=False), read_parent(api, graph)):
            api.add_nodes(support, nodes, fusion)
        self.reports.put(number, provider.report())

    def _compile(self, number: int, graphs: int, fused: int, count: int, partitions: int, contexts: int) -> None:
        """Compile all or none: onnxruntime does not release what was compiled before an error."""
        api, provider = self._known_api, self._providers[number]
        made = []
        for graph, node in zip(_pointers(graphs, count), _pointers(fused, count), strict=True):
            settled = provider.compile(read_graph(api, graph, copies=True).model)
            if (watch := self._watch) is not None:
                watch.settled.append(settled)
            assert settled.compiled is not None, "there is a compiler"
            inputs, outputs = (
                [api.text("GetValueInfoName", info) for info in api.pointers(f"Node_{side}", node)]
                for side in ("Inputs", "Outputs")
            )
            made.append(HostedPartition(api, self._shim, settled.compiled.executable, inputs, outputs))
        for k, partition in enumerate(made):
            own = next(self._numbers)
            self._partitions[own] = partition
            cast(partitions, POINTER(c_void_p))[k] = self._shim.new_partition(own)

    # Runs

    def _compute(self, number: int, context: int, numbers: int, count: int) -> None:
        if os.getpid() != self._pid:
            raise ProviderError("the session was created before this process was forked; create it in the process that runs it")
        self._partitions[number].compute(context, (c_int64 * count).from_address(numbers)[:])

    def _run_start(self, number: int, options: int) -> None:
        self._providers[number].run_start(self._run_options(number, options))

    def _run_end(self, number: int, options: int, wait: bool) -> None:
        self._providers[number].run_end(self._run_options(number, options), wait)

    def _run_options(self, number: int, options: int) -> RunOptions:
        """Return the tag of a run and those of its config entries that the provider reads."""
        api, found = self._known_api, RunOptions()
        found.logid = api.text("RunOptionsGetRunTag", options)
        for key in self._providers[number].provider.config_keys:
            value = api.other("GetRunConfigEntry", options, key.encode())
            if value is not None:
                found.add_run_config_entry(key, value.decode())
        return found

    def _set_options(self, number: int, keys: int, values: int, count: int) -> None:
        texts = [[text.decode() for text in cast(array, POINTER(c_char_p))[:count]] for array in (keys, values)]
        self._providers[number].set_options(dict(zip(*texts, strict=True)))

    def _release(self, kind: int, number: int) -> None:
        if kind == _PARTITION:
            self._partitions.pop(number, None)
        elif kind == _PROVIDER:
            self._providers.pop(number, None)
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
