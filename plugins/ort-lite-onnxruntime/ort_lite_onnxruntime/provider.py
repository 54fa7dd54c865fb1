"""OnnxRuntimeExecutionProvider, which runs the nodes that one of onnxruntime's execution providers supports."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from ort_lite.errors import NoDevice, ProviderError
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Rejection, SessionOptions
from ort_lite_onnxruntime.libraries import onnxruntime_module
from ort_lite_onnxruntime.targets import CPU, BuiltIn, OrtProvider

if TYPE_CHECKING:
    from ort_lite_onnxruntime.claims import OrtClaims


class TargetProvider(ExecutionProvider):
    """The base of providers that compile each partition to an onnxruntime session with one target."""

    default: ClassVar[bool] = False
    writes_no_input: ClassVar[bool] = True

    def __init__(self, target: OrtProvider, threads: int = 0) -> None:
        super().__init__()
        self._target, self._own_threads, self._session_threads = target, threads, 0

    def configure(self, options: SessionOptions) -> None:
        """Take the number of threads from the session options."""
        self._session_threads = options.intra_op_num_threads

    @property
    def num_threads(self) -> int:
        """The threads of each onnxruntime session; 0 leaves the choice to onnxruntime."""
        return self._own_threads or self._session_threads

    def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        """Yield the nodes that onnxruntime assigns to the target, and a reason for each other node."""
        nodes = list(graph)
        reasons = self._claims.reasons([node for node in nodes if node not in graph.split_bodies], graph.rules)
        for node in nodes:
            why = reasons.get(node, ("body", "a node inside belongs to another provider"))
            yield Capability([node], whole=bool(node.subgraphs())) if why is None else Rejection(node, *why)

    def compile(self, partitions: Sequence[Partition]) -> list[CompiledPartition | Exception]:
        """Create an onnxruntime session per partition. A partition that fails becomes the exception."""
        from ort_lite_onnxruntime.sessions import compile_partition

        compiled: list[CompiledPartition | Exception] = []
        for partition in partitions:
            try:
                compiled.append(compile_partition(partition, self._target, self.num_threads))
            except Exception as error:  # noqa: BLE001  # loses this partition alone
                compiled.append(error)
        return compiled

    @cached_property
    def _claims(self) -> "OrtClaims":
        from ort_lite_onnxruntime.claims import OrtClaims

        return OrtClaims(self, self._target)


class OnnxRuntimeExecutionProvider(TargetProvider):
    """One of onnxruntime's execution providers, as an execution provider for ort-lite.

    Options:

    execution_provider: the name of an execution provider of onnxruntime: "CPUExecutionProvider" (default), "CUDAExecutionProvider", ...
    provider_options: its options, a mapping of names to values.
    num_threads: threads per session; 0 (default): the session's intra_op_num_threads, or onnxruntime's choice.
    """

    name: ClassVar[str] = "OnnxRuntimeExecutionProvider"

    def __init__(
        self,
        execution_provider: str = CPU,
        provider_options: Mapping[str, Any] | None = None,
        num_threads: int | str = 0,
        **unknown: Any,
    ) -> None:
        ExecutionProvider.__init__(self, **unknown)
        super().__init__(BuiltIn(execution_provider, dict(provider_options or {})), _count(num_threads))
        self._check_available()

    def get_options(self) -> dict[str, Any]:
        """Return the options in effect."""
        return {
            "execution_provider": self._target.name,
            "provider_options": self._target.options,
            "num_threads": self.num_threads,
        }

    @staticmethod
    def load_library(path: str) -> list[type[ExecutionProvider]]:
        """Return the providers of a library for onnxruntime. Loads it into the process, for good."""
        from ort_lite_onnxruntime.hosted import load_library

        return [*load_library(path)]

    def _check_available(self) -> None:
        onnxruntime = onnxruntime_module()
        wanted, available = self._target.name, onnxruntime.get_available_providers()
        if wanted not in available:
            known = wanted in onnxruntime.get_all_providers()
            what = "is not in the installed onnxruntime" if known else "is none of onnxruntime's execution providers"
            error = NoDevice if known else ProviderError
            raise error(f"{self.name}: {wanted!r} {what}; available: {', '.join(available)}")


def _count(value: int | str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ProviderError(f"{OnnxRuntimeExecutionProvider.name}: num_threads is {value!r}; expected a number, 0 or more")
    return number
