"""Sessions and runs whose exceptions are returned, so that checks can decide what they mean."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from traceback import walk_tb
from typing import Any

import numpy as np

from ort_lite.provider.provider import ExecutionProvider
from ort_lite.testing.cases import Case, with_constants
from ort_lite.testing.hosts import HostRefusal, Outputs
from ort_lite.testing.kit import Kit, copy_feed

OTHERS = ("numpy", "ort_lite", "ort_lite_cpu")
"""Packages whose lines are not the provider's."""


def call_for(make: Callable[[], Any]) -> Any:
    """Return the result of a call, or its exception."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001  # whatever the provider lets out
        return error


def run_copy(session: Any, feed: Mapping[str, Any]) -> Any:
    """Return the outputs for a copy of the feed, or the exception."""
    return call_for(lambda: session.run(None, copy_feed(feed)))


def new_result(kit: Kit, model: Any, feed: Mapping[str, Any], provider: ExecutionProvider | None = None) -> Any:
    """Return the outputs of a new session, or the exception."""
    return call_for(lambda: kit.session(model, provider).run(None, copy_feed(feed)))


def bits(results: Iterable[Any]) -> list[bytes]:
    """Return the bytes of each result, which tell apart what `==` does not: NaN, and zeros of both signs."""
    return [np.asarray(result).tobytes() for result in results]


def problem(kit: Kit, got: Any, wanted: Sequence[Any], case: Case | None = None) -> str | None:
    """Describe the exception, or the difference from the expected results. None if there is neither, or if the host is the cause.

    A host is the cause if it refuses the model, or gives the same results without the provider.
    """
    if isinstance(got, HostRefusal):
        kit.excuse("refuses", str(got))
        return None
    text = format_exception(got) if isinstance(got, Exception) else kit.differs(got, wanted, case)
    if text is not None and isinstance(got, Outputs):
        alone = call_for(got.alone)
        if not isinstance(alone, Exception) and kit.differs(got, alone, case) is None:
            kit.excuse("computes otherwise by itself", text)
            return None
    return text


def format_exception(error: Exception) -> str:
    """Format an exception with its type and the innermost line that belongs to the provider."""
    return f"{type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """Return the innermost line of an exception that is neither ort_lite's nor NumPy's."""
    while error.__cause__ is not None:
        error = error.__cause__
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in OTHERS and not code.co_filename.startswith("<"):
            place = f" ({PurePath(code.co_filename).name}:{line} in {code.co_name})"
    return place


def sessions(kit: Kit) -> Iterator[tuple[Case, Any]]:
    """Yield a session for each operator's case. All checks share them, because compiling may be slow.

    Cases that cannot be compiled or run are findings of `claims`.
    """
    for case in kit.some:
        session = kit.memoize(("session", case), partial(call_for, partial(_running, kit, case)))
        if not isinstance(session, Exception):
            yield case, session


def new_sessions(kit: Kit, most: int) -> Iterator[tuple[Case, Any]]:
    """Yield up to `most` new sessions, which the caller may close."""
    for case in kit.some[:most]:
        session = call_for(partial(_running, kit, case))
        if not isinstance(session, Exception):
            yield case, session


def session_with_constants(kit: Kit, case: Case) -> tuple[Any, Mapping[str, Any]] | None:
    """Return a session of the case with all inputs but the first as initializers, or the exception, and its feed.

    Returns None if there is one input, or one of a type that ONNX cannot store.
    """
    given = call_for(partial(with_constants, case))
    if given is None or isinstance(given, Exception):
        return None
    return kit.memoize(("constants", case), lambda: call_for(partial(kit.session, given[0]))), given[1]


def _running(kit: Kit, case: Case) -> Any:
    session = kit.session(case.model)
    session.run(None, copy_feed(case.feed))
    return session
