"""The hierarchy of all errors that ort_lite raises on purpose.

Messages name the node or input, what was received, what was expected and what to do. Classes of onnxruntime's C API
(`InvalidArgument`, `NoSuchFile`, `NotImplemented`, ...) keep their names, so that existing `except` clauses still work. For one
mistake, onnxruntime may raise several classes: `Fail` or `InvalidArgument` depending on the kernel, and RuntimeError from
everything its Python binding calls besides `run`. Here, one class derives from all of them (docs/migrating-from-onnxruntime.md has
the table).
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, Self


class Named(Protocol):
    """The node attributes that an error reports."""

    @property
    def name(self) -> str:
        """The name of the node."""

    @property
    def op_type(self) -> str:
        """The operator type of the node."""


FIELDS = ("node", "operator", "provider", "input", "expected", "got")


class OrtLiteError(RuntimeError):
    """Base class of all errors. It is a RuntimeError, as is every failure of `run_with_iobinding` in onnxruntime.

    Fields repeat what the message says, "" if it does not: `node` (name), `operator` (type) and `provider` say where; `input` is
    the name of a feed or of a node's input; `expected` and `got` are the message's words for the two. `status` is the code and its
    name in onnxruntime.
    """

    status: ClassVar[tuple[int, str]] = (1, "FAIL")
    tells_status: ClassVar[bool] = False
    """True if messages start with the status, as in onnxruntime. Process-wide; set by `ort_lite.compat.switch`."""

    node: str = ""
    operator: str = ""
    provider: str = ""
    input: str = ""
    expected: str = ""
    got: str = ""

    words: str = ""
    """The text of onnxruntime for the same error, placed after the status for programs that search for it."""

    def __str__(self) -> str:
        return (self._beginning() if self.tells_status else "") + super().__str__()

    def _beginning(self) -> str:
        return f"[ONNXRuntimeError] : {self.status[0]} : {self.status[1]} : " + (f"{self.words}: " if self.words else "")

    def about(self, node: Named | None = None, /, **fields: str) -> Self:
        """Set the fields that are still empty, and return the error. The first caller knows the most."""
        if node is not None:
            fields |= {"node": node.name, "operator": node.op_type}
        for name, text in fields.items():
            if not getattr(self, name):
                setattr(self, name, text)
        return self

    def inside(self, body: str) -> None:
        """Append the body that contains the node, such as "'branch' of If 'n'". Inner bodies precede outer ones."""
        self.args = (f"{super().__str__()}; in {body}",)

    def prefix(self, who: str, provider: str = "") -> Self:
        """Prefix the text with `who`, unless it already names the provider, and return the error."""
        text = super().__str__()
        if (provider or who) not in text:
            self.args = (f"{who}: {text}",)
        return self

    def like(self, cause: BaseException) -> Self:
        """Set empty fields from another error, if it is one of ort_lite's, and return this error."""
        if isinstance(cause, OrtLiteError):
            self.about(**{name: getattr(cause, name) for name in FIELDS})
        return self


class Fail(OrtLiteError):
    """A failure without a more precise class."""


class InvalidArgument(OrtLiteError, ValueError):
    """A feed, an option or a name that the caller gave is wrong."""

    status = (2, "INVALID_ARGUMENT")


class InvalidType(InvalidArgument, TypeError):
    """An InvalidArgument for which onnxruntime raises a TypeError."""


class NoSuchFile(OrtLiteError, FileNotFoundError):
    """A file does not exist."""

    status = (3, "NO_SUCHFILE")


class Unreadable(Fail, OSError):
    """A file of a model package cannot be read or written. onnxruntime raises OSError."""


class NoExternalData(Fail, NoSuchFile):
    """A file of external data does not exist. onnxruntime raises Fail."""


class NoModel(OrtLiteError):
    """A class of onnxruntime, for `except` clauses. Nothing raises it."""

    status = (4, "NO_MODEL")


class EngineError(OrtLiteError):
    """A class of onnxruntime, for `except` clauses and for providers whose device fails. Nothing else raises it."""

    status = (5, "ENGINE_ERROR")


class InvalidProtobuf(InvalidArgument):
    """The bytes are not a serialised ModelProto. For empty bytes, onnxruntime raises InvalidArgument."""

    status = (7, "INVALID_PROTOBUF")


class ModelLoaded(OrtLiteError):
    """A class of onnxruntime, for `except` clauses. Nothing raises it."""

    status = (8, "MODEL_LOADED")


class NotFound(OrtLiteError):
    """A class of onnxruntime, for `except` clauses. Nothing raises it."""

    status = (14, "NOT_FOUND")


class DeviceReset(OrtLiteError):
    """A class of onnxruntime, for `except` clauses and for providers whose device was reset. Nothing else raises it."""

    status = (15, "DEVICE_RESET")


class InvalidParams(OrtLiteError):
    """The bytes are not a saved parameter dictionary or tensor. Names the byte offset, what is there and what was expected."""


class InvalidGraph(Fail, InvalidArgument):
    """The model breaks a rule of the ONNX specification: cycle, undefined input, two producers, ...

    onnxruntime raises Fail for a cycle, and InvalidArgument for an undefined input.
    """

    status = (10, "INVALID_GRAPH")


class ShapeInferenceError(InvalidGraph):
    """The shapes or types of a node's inputs do not fit its operator."""


class NotImplemented(OrtLiteError, NotImplementedError):
    """No provider of the session can run a node. The message lists the providers with their reasons."""

    status = (9, "NOT_IMPLEMENTED")


class UnknownOperator(Fail, NotImplemented):
    """No provider runs a node, and no schema or shape rule knows its operator. onnxruntime raises Fail."""

    status = Fail.status


class EPFail(OrtLiteError):
    """An execution provider failed."""

    status = (11, "EP_FAIL")


class ProviderError(EPFail):
    """A provider broke its contract or could not be created. Names the provider and what it did."""


class NoDevice(ProviderError):
    """A provider was created on a machine that lacks its device. The session then continues without it."""


class PlacementError(InvalidArgument):
    """A hard placement rule cannot be met, or two contradict each other. Names the node, the rules and the reason."""


class CompileError(ProviderError):
    """A provider's `compile` failed for a partition."""


class ModelRequiresCompilation(OrtLiteError):
    """A partition needs compilation, but `session.disable_model_compile` is set. Names partitions and providers."""

    status = (13, "MODEL_REQUIRES_COMPILATION")


class ModelLoadCanceled(OrtLiteError):
    """`SessionOptions.set_load_cancellation_flag(True)` cancelled the creation of a session."""

    status = (12, "MODEL_LOAD_CANCELED")


class RuntimeException(OrtLiteError):
    """A node failed while running. The message names it and its provider."""

    status = (6, "RUNTIME_EXCEPTION")


class NodeFailure(Fail, InvalidArgument, RuntimeException):
    """A node cannot compute with the inputs of a run, because their shapes do not fit each other.

    onnxruntime raises Fail or InvalidArgument, depending on the operator, and RuntimeException for a few.
    """


class InvalidData(NodeFailure):
    """A node cannot compute with the elements of its inputs: an index is out of range, an integer is divided by 0."""

    status = InvalidArgument.status


class RunTerminated(Fail, RuntimeException):
    """A run was terminated before it finished. onnxruntime raises Fail.

    Providers that stop raise this class; a session raises the subclass that applies.
    """


class Cancelled(RunTerminated):
    """`RunOptions.terminate` was set while the run was in flight."""


class DeadlineExceeded(RunTerminated, TimeoutError):
    """A run exceeded its `timeout`, or the creation of a session its `creation_timeout`."""


class VerificationError(OrtLiteError):
    """A partition's results differ from the CPU provider's for the same inputs (`run(..., verify="partition")`).

    `index` is the tensor's worst element, None if the tensors cannot be compared. `node` is the first wrong node, "" if none was
    found. `report` has all findings (see `ort_lite.tools.verify`).
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
    """A native kernel could not be compiled. Names the kernel and includes the compiler's message."""


class KernelMissing(KernelCompileError):
    """The kernel is in no installed kernel pack and not in the cache, and it cannot be compiled.

    Compiling may be disabled (session config entry `ort_lite.compile`) or impossible. Names the kernel, the node that needs it and
    what to do. `specs` are all missing kernels.
    """

    def __init__(self, message: str, specs: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.specs = specs


class KernelLoadError(OrtLiteError):
    """An object file with a native kernel could not be loaded. Names the file and the problem."""


class OutOfMemory(OrtLiteError, MemoryError):
    """Tensors do not fit into the allowed memory, or an arena could not grow. Names the capacities that were tried.

    For memory of a device, `wanted`, `in_use` and `limit` are the bytes asked for, in use, and allowed; None if nobody knows.
    """

    wanted: int | None = None
    in_use: int | None = None
    limit: int | None = None

    def set_sizes(self, wanted: int | None, in_use: int | None = None, limit: int | None = None) -> Self:
        """Set the bytes unless they are known, and return the error. The first caller knows the most."""
        if self.wanted is None:
            self.wanted, self.in_use, self.limit = wanted, in_use, limit
        return self


class InvalidPlan(OrtLiteError):
    """A memory plan is unsafe: tensors in use at the same time share bytes. Names both, their bytes and their lifetimes.

    Also raised if a plugin's memory planner does not return a plan; it then names the planner.
    """


def describe(error: BaseException) -> str:
    """Return the text of an error for use in other errors, without a status and onnxruntime's words at the start."""
    return str(error).removeprefix(error._beginning()) if isinstance(error, OrtLiteError) else str(error)


def format_error(error: BaseException) -> str:
    """Return the class and text of an error, for messages about it. Works even if the error's text cannot be created."""
    try:
        return f"{type(error).__name__}: {describe(error)}"
    except Exception as failure:  # noqa: BLE001  whatever a plugin's class does
        return f"{type(error).__name__}, whose text cannot be made ({type(failure).__name__})"


def shorten(text: str, most: int) -> str:
    """Truncate a text to `most` characters, the last three being dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def hint(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for an unknown name, or "" if no known name resembles it. Case does not count."""
    from difflib import get_close_matches

    spelled = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), spelled, 1)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""
