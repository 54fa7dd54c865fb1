"""OnnxRuntimeExecutionProvider, which runs the nodes that one of onnxruntime's execution providers supports."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection, SessionOptions
from ort_lite_onnxruntime.sessions import CPU, Sessions


class OnnxRuntimeExecutionProvider(ExecutionProvider):
    """One of onnxruntime's execution providers, as an execution provider for ort-lite.

    Options:

    execution_provider: the name of an execution provider of onnxruntime: "CPUExecutionProvider" (default), "CUDAExecutionProvider", ...
    provider_options: its options, a mapping of names to values.
    num_threads: threads per session; 0 (default): the session's intra_op_num_threads, or onnxruntime's choice.
    """

    name: ClassVar[str] = "OnnxRuntimeExecutionProvider"
    default: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = True

    def __init__(
        self,
        execution_provider: str = CPU,
        provider_options: Mapping[str, Any] | None = None,
        num_threads: int | str = 0,
        **unknown: Any,
    ) -> None:
        super().__init__(**unknown)
        self.execution_provider, self.provider_options = execution_provider, dict(provider_options or {})
        self.num_threads = _count(num_threads)
        self._session_threads = 0
        self._check_available()

    def configure(self, options: SessionOptions) -> None:
        """Take the number of threads from the session options."""
        self._session_threads = options.intra_op_num_threads

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that onnxruntime runs, and a reason for each node that it does not run."""
        for node in graph:
            wrong = self._sessions.misfit(node)
            if node in graph.split_bodies:
                wrong = "body", "a node inside belongs to another provider"
            yield Capability([node], whole=bool(node.subgraphs())) if wrong is None else Rejection(node, *wrong)

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition | Exception]:
        """Create an onnxruntime session per partition. A partition that fails becomes the exception."""
        compiled: list[CompiledPartition | Exception] = []
        threads = self.num_threads or self._session_threads
        for partition in partitions:
            try:
                compiled.append(self._sessions.compile(partition, threads))
            except Exception as error:  # noqa: BLE001  # loses this partition alone
                compiled.append(error)
        return compiled

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return {
            "execution_provider": self.execution_provider,
            "provider_options": self.provider_options,
            "num_threads": self.num_threads or self._session_threads,
        }

    @cached_property
    def _sessions(self) -> Sessions:
        return Sessions(self.execution_provider, self.provider_options)

    def _check_available(self) -> None:
        import onnxruntime

        if "+ort.lite" in onnxruntime.__version__:
            raise NoDevice(f"{self.name}: onnxruntime is ort_lite itself in this process (ort_lite.install_as_onnxruntime)")
        available = onnxruntime.get_available_providers()
        if self.execution_provider not in available:
            known = self.execution_provider in onnxruntime.get_all_providers()
            what = "is not in the installed onnxruntime" if known else "is none of onnxruntime's execution providers"
            error = NoDevice if known else ProviderError
            raise error(f"{self.name}: {self.execution_provider!r} {what}; available: {', '.join(available)}")


def _count(value: int | str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ProviderError(f"{OnnxRuntimeExecutionProvider.name}: num_threads is {value!r}; expected a number, 0 or more")
    return number
