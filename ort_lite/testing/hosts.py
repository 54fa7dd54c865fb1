"""Hosts: the runtimes in which the kit creates the sessions of a provider. ort-lite is one, and plugins add others.

A plugin names its class by an entry point, and the kit creates it without arguments:

    [project.entry-points."ort_lite.hosts"]
    onnxruntime = "ort_lite_ep.host:OnnxRuntimeHost"
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import ProviderError
from ort_lite.options.options import SessionOptions
from ort_lite.plugins import plugins
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.session.session import Session


class HostRefusal(NotSupported):
    """The host itself cannot run a model, with or without the provider under test."""


class Outputs(list[Any]):
    """The results of a run in another host than ort-lite. `alone()` computes those of the host without the provider."""

    def __init__(self, results: Iterable[Any], alone: Callable[[], list[Any]]) -> None:
        super().__init__(results)
        self.alone = alone


class Remark(Record):
    """An observation about some models that is no finding. `reasons` says of how many models each is true."""

    text: str
    reasons: Mapping[str, int]

    @property
    def models(self) -> int:
        """Return the number of models."""
        return sum(self.reasons.values())

    def __str__(self) -> str:
        return f"{self.text}: {self.models} ({', '.join(f'{count} {reason}' for reason, count in self.reasons.items())})"


class Host:
    """ort-lite as a host. Other hosts derive from this class and override every method.

    A session has `run(output_names, feeds, run_options)` and `close()`, as those of ort-lite. `run` returns Outputs. It raises
    HostRefusal if the host cannot run the model without the provider either, and the exceptions of the provider as they are.
    """

    name: ClassVar[str] = ""
    """The name of the entry point; "" for ort-lite."""
    label: str = ""
    """The name and version in reports."""
    others: Sequence[ExecutionProvider] = ()
    """Providers that stand for those of the host when the kit asks which nodes of a model the provider takes."""
    packages: ClassVar[frozenset[str]] = frozenset({"ort_lite", "ort_lite_cpu", "ort_lite_transforms"})
    """The packages of Python that run a provider and are not under test."""
    absent: ClassVar[Mapping[str, str]] = {}
    """The checks that have no place in the host, each with the reason."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """The names of providers that are called otherwise in the host, by their names in ort-lite."""

    def session(self, model: Any, provider: ExecutionProvider) -> Any:
        """Create a session that prefers the provider. A partition that fails to compile is an error."""
        with quiet():
            return Session(model, options(), providers=[(provider, {"on_compile_error": "raise"})])

    def provider(self, session: Any) -> ExecutionProvider:
        """Return the provider that was given to a session."""
        found: ExecutionProvider = next(iter(session._stage_results.assignment.providers.values()))
        return found

    def partitions(self, session: Any) -> list[Any]:
        """Return the provider's compiled partitions."""
        provider, prepared = self.provider(session), session._stage_results
        mine = {p.name for p in prepared.assignment.partitions if p.provider is provider}
        return [compiled for key, compiled in prepared.compiled.partitions.items() if key in mine]

    def constants(self, session: Any) -> list[Any]:
        """Return the values of the partitions whose arrays are the model's own bytes."""
        return constants_of(session._stage_results.assignment)

    def remarks(self) -> tuple[Remark, ...]:
        """Return observations about the models of all sessions so far."""
        return ()


def find_host(name: str) -> Host:
    """Return a new host of a name; "" is ort-lite.

    Raises:
        InvalidArgument: no installed plugin has the host, or a package that it needs is missing.
        ProviderError: the plugin cannot be imported, or names something else than a host.
    """
    if not name:
        return Host()
    cls = plugins.host(name)
    if not (isinstance(cls, type) and issubclass(cls, Host)):
        raise ProviderError(f"the host {name!r} is {cls!r}; expected a class derived from ort_lite.testing.hosts.Host")
    return cls()


def constants_of(assignment: Any) -> list[Any]:
    """Return the constants of an assignment's partitions that are arrays of numbers."""
    held = [value for partition in assignment.partitions for value in partition.constants]
    return [v for v in dict.fromkeys(held) if isinstance(v.constant, np.ndarray) and v.constant.dtype != object]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings, because ONNX's tests contain unusual models and kits report their own findings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def options() -> SessionOptions:
    """Return the options of all sessions: one thread, deterministic compute, and only fatal messages logged."""
    made = SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = 1
    made.use_deterministic_compute = True
    return made
