"""Each mistake is caught by the `except` clause that catches it with onnxruntime."""

from collections.abc import Iterator

import onnxruntime
import pytest

import ort_lite
from ort_lite import errors
from tests.compat.kernel_mistakes import KERNELS
from tests.compat.mistakes import BINDING, CALLING, LOADING, RUNNING, Mistake

MISTAKES = {**LOADING, **RUNNING, **BINDING, **CALLING, **{f"in a run, {name}": act for name, act in KERNELS.items()}}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    onnxruntime.set_default_logger_severity(4)
    yield
    onnxruntime.set_default_logger_severity(2)


def raised(act: Mistake, api: object) -> Exception:
    try:
        act(api)
    except Exception as error:  # noqa: BLE001  what comes is compared
        return error
    raise AssertionError(f"{api} raises nothing")


@pytest.mark.parametrize("name", MISTAKES)
def test_the_same_except_clause_catches_both(name: str) -> None:
    theirs, ours = raised(MISTAKES[name], onnxruntime), raised(MISTAKES[name], ort_lite)
    clause = getattr(errors, type(theirs).__name__, type(theirs))
    assert isinstance(ours, clause), f"{type(theirs).__name__}: {theirs}\n{type(ours).__name__}: {ours}"


def test_what_a_kernel_finds_is_fail_invalid_argument_and_runtime_exception() -> None:
    """onnxruntime chooses one of them for each kernel."""
    for name, act in KERNELS.items():
        error = raised(act, ort_lite)
        assert isinstance(error, errors.Fail) and isinstance(error, errors.InvalidArgument), name
        if not isinstance(error, errors.InvalidGraph):
            assert isinstance(error, errors.RuntimeException), name


def test_every_error_is_a_runtime_error() -> None:
    """Which is what onnxruntime raises in `run_with_iobinding`, whatever the reason."""
    assert issubclass(errors.OrtLiteError, RuntimeError)
