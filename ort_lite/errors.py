"""One hierarchy for every error that ort_lite raises on purpose.

Messages say who (node or input), what came, what was expected and what to do. The class names of onnxruntime's C API
(`InvalidArgument`, `NoSuchFile`, `NotImplemented`, ...) are kept, so that `except` clauses written for it go on working.
onnxruntime raises several classes for the same mistake: `Fail` or `InvalidArgument` depending on the kernel, and RuntimeError from
everything that its Python binding calls besides `run`. Here one class is caught by each of these names
(docs/migrating-from-onnxruntime.md has the table).
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, Self


class Named(Protocol):
    """The facts about a node that an error states."""

    @property
    def name(self) -> str:
        """The name of the node."""

    @property
    def op_type(self) -> str:
        """The operator of the node."""


FIELDS = ("node", "operator", "provider", "input", "expected", "got")


class OrtLiteError(RuntimeError):
    """Base class: a RuntimeError, as is whatever fails in `run_with_iobinding` of onnxruntime.

    What the message says is in fields too, "" where it does not say it.
    `node` (its name), `operator` (its type) and `provider` say where; `input` is the name of a feed or of a node's input; `expected`
    and `got` are the words of the message for what was wanted and what came. `status` is onnxruntime's code, and its name.
    """

    status: ClassVar[tuple[int, str]] = (1, "FAIL")
    tells_status: ClassVar[bool] = False
    """Of the whole process: texts begin with the status, as onnxruntime's do. `ort_lite.compat.switch` sets it."""

    node: str = ""
    operator: str = ""
    provider: str = ""
    input: str = ""
    expected: str = ""
    got: str = ""

    words: str = ""
    """onnxruntime's own for the same, where programs look for them: behind the status."""

    def __str__(self) -> str:
        return (self._beginning() if self.tells_status else "") + super().__str__()

    def _beginning(self) -> str:
        return f"[ONNXRuntimeError] : {self.status[0]} : {self.status[1]} : " + (f"{self.words}: " if self.words else "")

    def about(self, node: Named | None = None, /, **fields: str) -> Self:
        """Fills fields in that are empty: whoever knew first knew best. The error itself, to be raised."""
        if node is not None:
            fields |= {"node": node.name, "operator": node.op_type}
        for name, text in fields.items():
            if not getattr(self, name):
                setattr(self, name, text)
        return self

    def inside(self, body: str) -> None:
        """Adds the body that the node is in to the text, such as "'branch' of If 'n'"; inner bodies come before outer ones."""
        self.args = (f"{super().__str__()}; in {body}",)

    def named(self, who: str, provider: str = "") -> Self:
        """Puts `who`, of a provider, in front of the text, unless the text names the provider already."""
        text = super().__str__()
        if (provider or who) not in text:
            self.args = (f"{who}: {text}",)
        return self

    def like(self, cause: BaseException) -> Self:
        """Do the same as `about`, with what the given error says."""
        if isinstance(cause, OrtLiteError):
            self.about(**{name: getattr(cause, name) for name in FIELDS})
        return self


class Fail(OrtLiteError):
    """Something failed that has no more precise class."""


class InvalidArgument(OrtLiteError, ValueError):
    """A feed, an option or a name that the caller gave is wrong."""

    status = (2, "INVALID_ARGUMENT")


class InvalidType(InvalidArgument, TypeError):
    """An InvalidArgument where onnxruntime raises a TypeError."""


class NoSuchFile(OrtLiteError, FileNotFoundError):
    """A file does not exist."""

    status = (3, "NO_SUCHFILE")


class NoExternalData(Fail, NoSuchFile):
    """A file of external data does not exist: onnxruntime's Fail."""


class NoModel(OrtLiteError):
    """One of onnxruntime's, for `except` clauses: nothing raises it."""

    status = (4, "NO_MODEL")


class EngineError(OrtLiteError):
    """One of onnxruntime's, for `except` clauses, and for providers whose device fails: nothing else raises it."""

    status = (5, "ENGINE_ERROR")


class InvalidProtobuf(InvalidArgument):
    """The bytes are not a serialised ModelProto. For no bytes at all onnxruntime raises InvalidArgument."""

    status = (7, "INVALID_PROTOBUF")


class ModelLoaded(OrtLiteError):
    """One of onnxruntime's, for `except` clauses: nothing raises it."""

    status = (8, "MODEL_LOADED")


class NotFound(OrtLiteError):
    """One of onnxruntime's, for `except` clauses: nothing raises it."""

    status = (14, "NOT_FOUND")


class DeviceReset(OrtLiteError):
    """One of onnxruntime's, for `except` clauses, and for providers whose device was reset: nothing else raises it."""

    status = (15, "DEVICE_RESET")


class InvalidParams(OrtLiteError):
    """The bytes are not a saved parameter dictionary or tensor; names the byte offset, what is there and what was expected."""


class InvalidGraph(Fail, InvalidArgument):
    """The model breaks a rule of the ONNX specification: cycle, undefined input, two producers, ...

    onnxruntime raises Fail for a cycle, and InvalidArgument for an undefined input.
    """

    status = (10, "INVALID_GRAPH")


class ShapeInferenceError(InvalidGraph):
    """The shapes or types of a node's inputs do not fit its operator."""


class NotImplemented(OrtLiteError, NotImplementedError):
    """No provider of the session can run a node; the message lists the providers with their reasons."""

    status = (9, "NOT_IMPLEMENTED")


class UnknownOperator(Fail, NotImplemented):
    """No provider runs a node, and neither a schema nor a shape rule knows its operator: onnxruntime's Fail."""

    status = Fail.status


class EPFail(OrtLiteError):
    """An execution provider failed."""

    status = (11, "EP_FAIL")


class ProviderError(EPFail):
    """A provider broke its contract or could not be created; names the provider and what it did."""


class NoDevice(ProviderError):
    """Raised by a provider when it is created on a machine that lacks its device; the session then does without it."""


class PlacementError(InvalidArgument):
    """A hard placement rule cannot be kept, or two contradict each other; names the node, the rules and the reason."""


class CompileError(ProviderError):
    """`compile` of a provider failed for a partition."""


class ModelRequiresCompilation(OrtLiteError):
    """A partition would have to be compiled although `session.disable_model_compile` is set; names partitions and providers."""

    status = (13, "MODEL_REQUIRES_COMPILATION")


class ModelLoadCanceled(OrtLiteError):
    """`SessionOptions.set_load_cancellation_flag(True)` cancelled the creation of a session."""

    status = (12, "MODEL_LOAD_CANCELED")


class RuntimeException(OrtLiteError):
    """A node failed while running; the message names it and its provider."""

    status = (6, "RUNTIME_EXCEPTION")


class NodeFailure(Fail, InvalidArgument, RuntimeException):
    """A node cannot compute what came in a run: the shapes of its inputs do not fit each other.

    onnxruntime raises Fail or InvalidArgument, depending on the operator, and RuntimeException for a few.
    """


class InvalidData(NodeFailure):
    """A node cannot compute from the elements that came: an index is out of range, an integer is divided by 0."""

    status = InvalidArgument.status


class RunTerminated(Fail, RuntimeException):
    """A run was ended before it was done: onnxruntime's Fail.

    Providers that stop raise this; a session tells which of the two below it was.
    """


class Cancelled(RunTerminated):
    """`RunOptions.terminate` was set while the run was in flight."""


class DeadlineExceeded(RunTerminated, TimeoutError):
    """A run took longer than its `timeout`, or the creation of a session longer than its `creation_timeout`."""


class VerificationError(OrtLiteError):
    """A partition gives other results than the CPU provider does from the same inputs (`run(..., verify="partition")`).

    `index` is the tensor's worst element, None where the tensors cannot be compared; `node` the first bad node, "" where none was
    found; `report` everything that was found (see `ort_lite.tools.verify`).
    """

    def __init__(
        self,
        message: str,
        partition: str = "",
        provider: str = "",
        tensor: str = "",
        index: tuple[int, ...] | None = None,
        node: str = "",
        report: Any = None,
    ) -> None:
        super().__init__(message)
        self.partition, self.provider, self.tensor, self.index = partition, provider, tensor, index
        self.node, self.report = node, report


class KernelCompileError(OrtLiteError):
    """A native kernel could not be compiled; names the kernel and carries the compiler's message."""


class KernelMissing(KernelCompileError):
    """A kernel came with no installation and no session compiled it before, and nobody may compile it now (session config entry
    `ort_lite.compile`), or can; names the kernel, the node that needs it, and what to do. `specs`: all that are missing.
    """

    def __init__(self, message: str, specs: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.specs = specs


class KernelLoadError(OrtLiteError):
    """An object file with a native kernel could not be loaded; names the file and what is wrong with it."""


class OutOfMemory(OrtLiteError, MemoryError):
    """Tensors fit no memory that was allowed, or an arena could not grow; names the capacities that were tried."""


class InvalidPlan(OrtLiteError):
    """A memory plan is unsafe: tensors that live together share bytes; names both, their bytes and their lifetimes.

    Or a plugin's memory planner gave what is no plan: names the planner.
    """


def describe(error: BaseException) -> str:
    """Return the text of an error for texts of other errors: without a status and onnxruntime's words in front."""
    return str(error).removeprefix(error._beginning()) if isinstance(error, OrtLiteError) else str(error)


def format_error(error: BaseException) -> str:
    """Return class and text of an error, for messages about it; also of one whose text cannot be made."""
    try:
        return f"{type(error).__name__}: {describe(error)}"
    except Exception as failure:  # noqa: BLE001  whatever a plugin's class does
        return f"{type(error).__name__}, whose text cannot be made ({type(failure).__name__})"


def shorten(text: str, most: int) -> str:
    """Shorten a text to so many characters, the last three being dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def hint(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for an unknown name, or "" if no known name resembles it. Case does not count."""
    from difflib import get_close_matches

    spelled = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), spelled, 1)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""
