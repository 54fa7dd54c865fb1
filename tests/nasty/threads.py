"""States, turns and hooks: what is made, entered, closed and told while a session lives, and fails."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ort_lite
from ort_lite.errors import InvalidArgument, InvalidGraph, OrtLiteError, ProviderError
from ort_lite.provider import Partition
from tests.nasty.cases import NASTY, compiled_to, computing, feeds, nasty, options, raises, ran, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, table
from tests.provider.numpy_provider import evaluate
from tests.threads import join

ERRORS: dict[str, BaseException] = {
    "os": OSError("bus"),
    "ours": ProviderError("ours"),
    "graph": InvalidGraph("ours"),
    "key": KeyError("k"),
    "stop": StopIteration(),
}
CONCURRENCY = {word: word for word in ("concurrent", "serial", "per-thread")}


class Stateful:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def create_state(self) -> Any:
        return {}

    def __call__(self, inputs: Sequence[Any], state: Any) -> list[Any]:
        return evaluate(self.partition, inputs)

    def release_state(self, state: Any) -> None:
        pass


def stateful(concurrency: str, **members: Any) -> Any:
    return compiled_to(type("Stateful", (Stateful,), members), concurrency=concurrency)


def lived(provider: Any, model: str = "open", threads: int = 1) -> Any:
    """Made, run by threads, closed."""
    made = session(model, provider)
    failures: list[BaseException] = []
    results: list[Any] = []

    def work() -> None:
        try:
            results.extend(made.run(None, feeds(model)) for _ in range(3))
        except BaseException as error:  # noqa: BLE001  raised below
            failures.append(error)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        join(worker)
    try:
        made.close()
    except OrtLiteError as error:
        failures.append(error)
    if failures:
        raise failures[0]
    return [(result, wanted(model)) for result in results]


# States that are odd and fine, and those that are wrong.
ODD_STATES: dict[str, dict[str, Any]] = {
    "none": {"create_state": says(None)},
    "a-number": {"create_state": says(3)},
    "no-release": {"release_state": None},
    "itself": {"create_state": lambda self: self},
}
WRONG_STATES: dict[str, dict[str, Any]] = {
    "create-raises": {"create_state": raises(OSError("no card"))},
    "create-raises-ours": {"create_state": raises(InvalidGraph("ours"))},
    "create-takes-arguments": {"create_state": lambda self, more: more},
    "create-is-no-method": {"create_state": 3},
    "release-raises": {"release_state": raises(OSError("stuck"))},
    "release-raises-ours": {"release_state": raises(InvalidGraph("ours"))},
    "release-takes-nothing": {"release_state": lambda self: None},
    "call-takes-no-state": {"__call__": lambda self, inputs: evaluate(self.partition, inputs)},
    "call-raises": {"__call__": raises(OSError("bus"))},
}


def hooked(hook: str, error: BaseException, model: str) -> Any:
    provider = nasty("Abs Neg", **{hook: raises(error)})
    with_ = options()
    if hook == "start_profiling":
        with_.enable_profiling = True
    made = session(model, provider, with_=with_)
    if hook == "set_dynamic_options":
        made.set_ep_dynamic_options({"a": "1"})
    made.run(None, feeds(model))
    return None


HOOKS = {
    hook: hook
    for hook in (
        "on_session_initialization_end",
        "on_run_start",
        "on_run_end",
        "sync",
        "start_profiling",
        "set_dynamic_options",
    )
}
MODELS = {"open": "open", "branch": "branch"}


def both_fail() -> Any:
    """The run and the end of it: the run's error comes, with the other beside it."""
    failing = computing(
        raises(OSError("in the run")), on_run_end=raises(OSError("at the end")), sync=raises(OSError("waiting"))
    )
    return ran("open", failing)


def hooks_of_two() -> Any:
    told: list[str] = []
    first = nasty("Abs", on_run_end=raises(OSError("first")), name="FirstExecutionProvider")
    second = nasty("Neg", on_run_end=lambda self, run: told.append("second"))
    made = session("chain", first, second)
    try:
        made.run(None, feeds("chain"))
    finally:
        assert told == ["second"]


def itself(concurrency: str) -> Any:
    """A partition that runs its own session, once."""
    made: list[Any] = []
    deep: list[int] = []

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        if not deep:
            deep.append(1)
            made[0].run(None, feeds("open"))
        return ys

    made.append(session("open", computing(function, concurrency=concurrency)))
    return [(made[0].run(None, feeds("open")), wanted("open"))]


def while_running(act: Callable[[Any], Any], concurrency: str = "concurrent") -> Any:
    """A partition that does something to its own session."""
    made: list[Any] = []

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        act(made[0])
        return ys

    made.append(session("open", computing(function, concurrency=concurrency)))
    return [(made[0].run(None, feeds("open")), wanted("open"))]


def terminated() -> Any:
    run = ort_lite.RunOptions()

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        run.terminate = True
        return ys

    session("open", computing(function)).run(None, feeds("open"), run)


def closed_with_state(concurrency: str) -> Any:
    made: list[Any] = []

    def call(self: Any, inputs: Sequence[Any], state: Any) -> Any:
        made[0].close()
        return evaluate(self.partition, inputs)

    made.append(session("open", stateful(concurrency, __call__=call)))
    made[0].run(None, feeds("open"))


def last_reference() -> Any:
    """The only reference to the session goes while it runs."""
    made: list[Any] = []

    def function(inputs: Sequence[Any], ys: list[Any]) -> Any:
        made.clear()
        return ys

    made.append(session("open", computing(function)))
    return [(made[0].run(None, feeds("open")), wanted("open"))]


DOINGS: dict[str, Callable[[Any], Any]] = {
    "close": lambda made: made.close(),
    "trim": lambda made: made.trim(),
    "memory": lambda made: made.memory(),
    "explain": lambda made: str(made.explain()),
    "load-params": lambda made: made.load_params({}),
}


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (word, members) in crossed(concurrency=CONCURRENCY, state=ODD_STATES):
        # a thread that has ended has nobody to tell
        right = members.get("release_state", 1) is not None
        act = lambda w=word, m=members: lived(stateful(w, **m), threads=2)  # noqa: E731
        yield f"odd-{name}", Case(act, () if right else (NASTY, "release_state"), either=word == "per-thread")
    for name, (word, members) in crossed(concurrency=CONCURRENCY, state=WRONG_STATES):
        hook = next(iter(members)).strip("_")
        told = (NASTY,) if hook == "call" else (NASTY, hook)
        either = hook == "release_state" and word == "per-thread"  # a thread that ends has nobody to tell
        yield f"wrong-{name}", Case(lambda w=word, m=members: lived(stateful(w, **m)), told, either)
    for name, (hook, error, model) in crossed(hook=HOOKS, error=ERRORS, model=MODELS):
        yield f"hook-{name}", Case(lambda h=hook, e=error, m=model: hooked(h, e, m), (NASTY, hook))
    for name, (word, act) in crossed(concurrency={w: w for w in ("concurrent", "serial")}, act=DOINGS):
        yield f"in-a-run-{name}", Case(lambda w=word, a=act: while_running(a, w), (NASTY,), either=True)
    for word in ("concurrent", "serial"):
        yield f"runs-itself-{word}", Case(lambda w=word: itself(w))
    for word in CONCURRENCY:
        yield f"closes-itself-with-a-state-{word}", Case(lambda w=word: closed_with_state(w), (NASTY, "closed by a run"))


CASES: Table = table(
    [
        *_cases(),
        ("the-run-and-its-end-fail", Case(both_fail, (NASTY, "in the run", "at the end", "waiting"))),
        ("one-hook-fails-of-two", Case(hooks_of_two, ("FirstExecutionProvider", "on_run_end", "first"))),
        ("ends-the-run", Case(terminated, ("terminate",))),
        ("drops-the-session", Case(last_reference)),
        ("options-that-nobody-has", Case(lambda: session("open", nasty()).set_ep_dynamic_options({"a": "1"}), (NASTY,))),
        (
            "options-refused",
            Case(
                lambda: session("open", nasty(set_dynamic_options=raises(InvalidArgument("no a")))).set_ep_dynamic_options(
                    {"a": "1"}
                ),
                (NASTY, "no a"),
            ),
        ),
    ]
)
