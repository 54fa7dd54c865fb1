"""The exit statuses of the command line, and the status of an error."""

from enum import IntEnum

from ort_lite import errors
from ort_lite.errors import OrtLiteError

CPU = "CPUExecutionProvider"


class ExitStatus(IntEnum):
    """The exit status of a command. `exec` has that of the command that it runs."""

    DONE = 0
    FINDINGS = 1
    """A check, a comparison or a verification found something."""
    USAGE = 2
    """The arguments are wrong: an option, a provider's name, an input, a file other than the model."""
    MODEL = 3
    """The model cannot be loaded or run."""
    PROVIDER = 4
    """An execution provider other than the CPU provider failed."""
    INTERRUPTED = 130
    """Ctrl-C, as in a shell."""


_OF_THE_MODEL = (
    errors.InvalidGraph,
    errors.InvalidProtobuf,
    errors.NodeFailure,
    errors.NoSuchFile,
    errors.NotImplemented,
    errors.RunTerminated,
)
"""Errors about a model that are also an InvalidArgument or an OSError."""
_OF_A_PROVIDER = (errors.EPFail, errors.EngineError, errors.DeviceReset)


def status_of(error: OrtLiteError | OSError) -> ExitStatus:
    """Return the exit status for an error that ends a command."""
    if isinstance(error, errors.VerificationError):
        return ExitStatus.FINDINGS
    if isinstance(error, _OF_A_PROVIDER):
        return ExitStatus.PROVIDER
    if isinstance(error, errors.RuntimeException) and error.provider not in ("", CPU):
        return ExitStatus.PROVIDER
    if isinstance(error, errors.InvalidArgument | OSError) and not isinstance(error, _OF_THE_MODEL):
        return ExitStatus.USAGE
    return ExitStatus.MODEL
