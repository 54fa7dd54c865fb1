"""Processes that fork while providers live in them, and the conformance kit pointed at nasty ones."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ort_lite.errors import InvalidGraph
from ort_lite.testing import check_provider
from tests.nasty.cases import NastyDevice, computing, feeds, nasty, raises, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, differs, table
from tests.nasty.threads import stateful


def in_a_child(made: Any, model: str = "open") -> list[tuple[Any, Any]]:
    """What a session gives in the child of a fork, and then here."""
    warnings.simplefilter("ignore", DeprecationWarning)  # threads at a fork are what this is about
    child = os.fork()
    if not child:
        os._exit(1 if differs(made.run(None, feeds(model)), wanted(model)) else 0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    return [(made.run(None, feeds(model)), wanted(model))]


def ran_before(provider: Any) -> Any:
    made = session("open", provider)
    made.run(None, feeds("open"))
    return in_a_child(made)


def never_ran(provider: Any) -> Any:
    return in_a_child(session("open", provider))


def while_another_runs(make: Callable[..., Any]) -> Any:
    """A thread of the parent is inside at the fork."""
    inside, go, main = threading.Event(), threading.Event(), threading.get_ident()

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        if threading.get_ident() != main:
            inside.set()
            go.wait(10)
        return ys

    made = session("open", make(function))
    runner = threading.Thread(target=made.run, args=(None, feeds("open")), daemon=True)
    runner.start()
    assert inside.wait(10)
    warnings.simplefilter("ignore", DeprecationWarning)
    child = os.fork()
    if not child:
        os._exit(1 if differs(made.run(None, feeds("open")), wanted("open")) else 0)
    _, status = os.waitpid(child, 0)
    go.set()
    runner.join(10)
    assert status == 0, f"the child ended with {status}"
    return [(made.run(None, feeds("open")), wanted("open"))]


def forks_in_a_run() -> Any:
    """A partition that forks; the child computes nothing."""

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        return ys

    return [(session("open", computing(function)).run(None, feeds("open")), wanted("open"))]


PROVIDERS: dict[str, Callable[[], Any]] = {
    "concurrent": nasty,
    "serial": lambda: nasty(concurrency="serial"),
    "device": lambda: nasty("Abs", NastyDevice),
    "state": lambda: stateful("concurrent"),
    "serial-state": lambda: stateful("serial"),
    "state-of-each-thread": lambda: stateful("per-thread"),
}


# The kit: whatever a provider does, a report comes.

ERRORS = {"os": OSError("bus"), "ours": InvalidGraph("ours")}
CHECKED: dict[str, dict[str, Any]] = {
    "wide": {"function": lambda inputs, ys: [y.astype(np.float64) for y in ys]},
    "nothing": {"function": lambda inputs, ys: []},
    "none": {"function": lambda inputs, ys: None},
    "raises": {"function": raises(OSError("bus"))},
    "options-none": {"get_options": says(None)},
    "answers-none": {"get_capability": says(None)},
    "compiles-to-none": {"compile": says(None)},
    "compile-raises": {"compile": raises(OSError("bus"))},
    "capability-raises": {"get_capability": raises(OSError("bus"))},
    "configure-raises": {"configure": raises(OSError("bus"))},
}


def reported(members: dict[str, Any]) -> None:
    """Its checks end, and one of them found something."""
    given = dict(members)
    function = given.pop("function", None)
    made = nasty("Abs", **given) if function is None else computing(function, "Abs", **given)
    cls = type(made)
    takes = lambda node: node.op_type == "Abs"  # noqa: E731
    report = check_provider(lambda **options: cls(takes), operators=["Abs"], only=["contract", "claims", "errors"])
    assert not report.passed, str(report)
    assert str(report) and report.to_json()


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (way, make) in crossed(way={"ran": ran_before, "never-ran": never_ran}, provider=PROVIDERS):
        yield f"fork-{name}", Case(lambda w=way, m=make: w(m()))
    for word in ("concurrent", "serial"):
        make = lambda function, w=word: computing(function, concurrency=w)  # noqa: E731
        yield f"fork-while-another-runs-{word}", Case(lambda m=make: while_another_runs(m))
    for name, members in CHECKED.items():
        yield f"kit-{name}", Case(lambda m=members: reported(m))


CASES: Table = table([*_cases(), ("forks-in-a-run", Case(forks_in_a_run))])
