"""onnxruntime as a host of the conformance kit: its sessions run a provider of ort-lite through this package's library."""

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ort_lite.dtypes import Array, from_onnx, to_onnx
from ort_lite.errors import InvalidArgument, RunTerminated
from ort_lite.options.options import RunOptions
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import DEFAULT
from ort_lite.provider import ExecutionProvider
from ort_lite.testing.checks.tries import call_for
from ort_lite.testing.hosts import Host, HostRefusal, Outputs, Remark, constants_of, options
from ort_lite_ep import get_library_path
from ort_lite_ep.library import Watch, library
from ort_lite_ep.provider import OWN, Remainder, registered_names
from ort_lite_ep.reports import GraphReport
from ort_lite_ep.tensors import DTYPES, array_at, contents, to_host, unpack_array

_CPU = "CPUExecutionProvider"
_WITHOUT_NUMPY = ("bfloat16", "float8", "float4", "int4", "int2")
"""Parts of the names of types that onnxruntime does not take as arrays."""
_REASONS = {
    r"(?:implementation|kernel) for (\w+\(\d+\))": "without a kernel for {0}",
    r"Fatal error: (\S+?)\(-?\d+\) is not a registered": "with the unknown operator {0}",
    r"No Op registered for (\w+) with domain_version of (\d+)": "with the unknown operator {0}({1})",
    r"Op \((\w+)\) \[ShapeInferenceError\] (.*)": "with an invalid {0}: {1}",
    r"MLDataType for: tensor\((\w+)\) is not": "with {0}",
    r"Type 'tensor\((\w+)\)' of input parameter .* of operator \((\w+)\)": "with {1} of {0}",
    r"while running (\w+) node.*(?: was false\.|Status Message:) (.*)": "failing in {0}: {1}",
    r" was false\. (.*)": "failing: {0}",
}
"""Patterns of onnxruntime's messages, and what a report says of each."""
_TERMINATED = "terminate flag"
"""A part of onnxruntime's message for a run that was terminated."""
_UNASKED = "it asks the provider itself, and creates no session"
_UNRUN = "it calls compiled partitions itself, without a session"


class OnnxRuntimeHost(Host):
    """onnxruntime with the provider under test first, and its own CPU provider for what that leaves."""

    name: ClassVar[str] = "onnxruntime"
    packages: ClassVar[frozenset[str]] = Host.packages | {"onnxruntime", "ort_lite_ep"}
    absent: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("contract", "settings", "capability", "transfer"), _UNASKED),
        **dict.fromkeys(("handles", "donations", "replay", "events"), _UNRUN),
        "memories": "onnxruntime does not know the memories of a device",
        "forks": "sessions of a parent process do not run in a forked child",
        "saved": "it saves and loads models with ort-lite",
    }
    aliases: ClassVar[Mapping[str, str]] = {DEFAULT: OWN}

    def __init__(self) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise InvalidArgument("the package onnxruntime is missing; install onnxruntime 1.24 or later") from error
        if not hasattr(onnxruntime, "register_execution_provider_library"):
            raise InvalidArgument(f"onnxruntime {onnxruntime.__version__} has no plugins; install onnxruntime 1.24 or later")
        self._runtime = onnxruntime
        self.label = f"onnxruntime {onnxruntime.__version__}"
        self.others = (Remainder(),)
        self._sessions = 0
        self._idle: Counter[str] = Counter()

    def session(self, model: Any, provider: ExecutionProvider) -> "HostedSession":
        """Create a session of onnxruntime that runs this instance of the provider."""
        name = self.aliases.get(provider.name, provider.name)
        self._register(name, type(provider))
        chosen = dict(type(provider).supported_devices().get(provider.device, {}))
        made = HostedSession(partial(self._create, model, chosen), name, provider)
        self._sessions += 1
        if not made.watch.settled:
            self._idle[_codes(library().reports.find(name)[-1]) or "without a node to ask about"] += 1
        return made

    def provider(self, session: Any) -> ExecutionProvider:
        """Return the provider that was given to a session."""
        found: ExecutionProvider = session.watch.provider
        return found

    def partitions(self, session: Any) -> list[Any]:
        """Return the provider's compiled partitions, those of all fused nodes."""
        return [
            settled.compiled.partitions[partition.name]
            for settled in session.watch.settled
            for partition in settled.assignment.partitions
            if partition.provider is session.watch.provider
        ]

    def constants(self, session: Any) -> list[Any]:
        """Return the constants of the fused nodes, which are copies of onnxruntime's."""
        return [value for settled in session.watch.settled for value in constants_of(settled.assignment)]

    def remarks(self) -> tuple[Remark, ...]:
        """Return for how many models the provider got no node, by the codes of its reasons."""
        idle = dict(self._idle.most_common())
        return (Remark(f"models of {self._sessions} without a node that the provider takes", idle),) if idle else ()

    def _register(self, name: str, cls: type[ExecutionProvider]) -> None:
        """Register the library for a provider, which need not be installed."""
        if any(device.ep_name == name for device in self._runtime.get_ep_devices()):
            return
        unknown = name not in registered_names()
        if unknown:
            plugins.register_provider(name, cls)
        try:
            self._runtime.register_execution_provider_library(name, get_library_path())
        finally:
            if unknown:
                plugins.unregister_provider(name)

    def _create(self, model: Any, chosen: dict[str, Any], *providers: str) -> Any:
        """Create a session whose providers have the options that choose a device."""
        own, usual = self._runtime.SessionOptions(), options()
        for name in ("log_severity_level", "intra_op_num_threads", "use_deterministic_compute"):
            setattr(own, name, getattr(usual, name))
        return self._runtime.InferenceSession(
            model, own, providers=[*((name, chosen) for name in providers), _CPU], enable_fallback=0
        )


class HostedSession:
    """A session of onnxruntime as the kit uses it.

    Args:
        create: creates a session of the model with these providers before onnxruntime's own.
        name: the name of the provider in onnxruntime.
        provider: the instance to use.

    Raises:
        HostRefusal: onnxruntime cannot load the model without the provider either.
        Exception: what the provider raised, also if onnxruntime did without it.
    """

    def __init__(self, create: Callable[..., Any], name: str, provider: ExecutionProvider) -> None:
        self._create = create
        with library().watch(provider, options()) as self.watch:
            made = call_for(partial(create, name))
        if isinstance(made, Exception):
            raise _cause(made, self.watch, create)
        if self.watch.errors:  # onnxruntime goes on without a provider that fails to say what it takes
            raise self.watch.errors[0]
        self._session: Any = made

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> Outputs:
        """Run the model. Raises HostRefusal, RunTerminated, and what the provider or onnxruntime raises."""
        with library().watch() as watch:
            got = call_for(partial(_run, self._session, output_names, feeds, run_options))
        alone = partial(self._run_alone, output_names, feeds)
        if isinstance(got, Exception):
            raise _cause(got, watch, alone)
        return Outputs(got, alone)

    def _run_alone(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model without the provider."""
        return _run(self._create(), output_names, feeds)

    def close(self) -> None:
        """Release onnxruntime's session, and with it the compiled partitions."""
        self._session = None
        self.watch.settled.clear()


def _codes(report: GraphReport) -> str:
    """Return how a provider declined all nodes: "declined operator, type"."""
    codes = sorted({node.reason.partition(":")[0].removeprefix("declined ") for node in report.declined})
    return f"declined {', '.join(codes)}" if codes else ""


def _cause(error: Exception, watch: Watch, alone: Callable[[], Any]) -> BaseException:
    """Return what an error of onnxruntime means: an error of the provider, a termination, or a refusal of onnxruntime's own."""
    if watch.errors:
        return watch.errors[0]
    if _TERMINATED in str(error):
        return RunTerminated(str(error))
    return HostRefusal(_reason(error)) if isinstance(call_for(alone), Exception) else error


def _reason(error: Exception) -> str:
    """Return the operator or type that onnxruntime's message names, or the end of the message."""
    text = " ".join(str(error).split())
    for pattern, form in _REASONS.items():
        if (found := re.search(pattern, text)) is not None:
            return form.format(*found.groups())
    return text.split(" : ", 2)[-1]


def _run(
    session: Any, output_names: Sequence[str] | None, feeds: Mapping[str, Any], given: RunOptions | None = None
) -> list[Any]:
    """Run a session of onnxruntime with arrays, or with OrtValues if NumPy lacks one of the types."""
    options = None
    if given is not None:
        import onnxruntime

        options = onnxruntime.RunOptions()
        options.terminate = given.terminate
    if not any(part in one.type for one in (*session.get_inputs(), *session.get_outputs()) for part in _WITHOUT_NUMPY):
        arrays = {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in feeds.items()}
        found: list[Any] = session.run(output_names, arrays, options)
        return found
    values = {name: _value(np.asarray(array)) for name, array in feeds.items()}
    names = output_names or [one.name for one in session.get_outputs()]
    return [_array(value) for value in session.run_with_ort_values(names, values, options)]


def _value(array: Array) -> Any:
    """Return an array as an OrtValue of the same type."""
    from onnxruntime import OrtValue

    if array.dtype.kind in "OUS":
        return OrtValue.ortvalue_from_numpy(array)
    name = array.dtype.name
    made, filled = OrtValue.ortvalue_from_shape_and_type(array.shape, to_onnx(name)), contents(array, to_host(name))
    if filled.nbytes:
        ctypes.memmove(made.data_ptr(), filled.ctypes.data, filled.nbytes)
    return made


def _array(value: Any) -> Array:
    """Return the elements of an OrtValue, copied."""
    if value.data_type() == "tensor(string)":
        found: Array = value.numpy()
        return found
    code = to_host(from_onnx(value.element_type()))
    if DTYPES[code] is None:
        return unpack_array(value.data_ptr(), code, value.shape())
    return array_at(value.data_ptr(), code, value.shape()).copy()
