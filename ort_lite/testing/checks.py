"""The checks of the kit. Each takes a Kit and returns what it found; its docstring says what a provider must keep.

They share one habit: a provider is tried through sessions, as users try it, and judged beside the CPU provider.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_lite.errors import OrtLiteError
from ort_lite.provider import API_VERSION, Capability, GraphView, Rejection
from ort_lite.testing import cases
from ort_lite.testing.cases import Case
from ort_lite.testing.frozen import changed, snapshot
from ort_lite.testing.kit import Finding, Kit, compare, copied

THREADS, RUNS = 8, 12


def contract(kit: Kit) -> list[Finding]:
    """It has a name and an API version that this ort_lite serves, gives its options as a dict, and refuses unknown ones."""
    provider = kit.make()
    found = []
    if not provider.name:
        found.append("it has no name")
    if str(provider.api_version).split(".")[0] != API_VERSION.split(".")[0]:
        found.append(f"api_version is {provider.api_version!r}; this is {API_VERSION!r}")
    if not isinstance(provider.get_options(), dict):
        found.append(f"get_options() gave {provider.get_options()!r}; expected a dict")
    try:
        kit.make(an_option_that_nobody_knows=1)
        found.append("it took an option that it does not know; expected ProviderError")
    except OrtLiteError:
        pass
    except Exception as error:  # noqa: BLE001  # any other class is the finding
        found.append(f"an option that it does not know raised {type(error).__name__}; expected ProviderError")
    return [Finding("contract", "", text) for text in found]


def capability(kit: Kit) -> list[Finding]:
    """`get_capability` answers for each node that it is shown, twice the same, with a reason where it declines.

    It claims no node that the view does not hold, and changes nothing.
    """
    found = []
    for case in (*kit.some, *kit.declined):
        view = _view(case)
        before = _texts(view)
        first, second = (_answers(kit, view) for _ in range(2))
        free = list(view)
        told = {node for answer in first for node in _nodes(answer)}
        problems = [f"says nothing of {node}" for node in free if node not in told]
        problems += [f"claims {node}, which the view does not hold" for node in told - set(free)]
        problems += [f"declines {a.node} without a code or a detail" for a in _rejections(first) if not (a.code and a.detail)]
        if list(map(_plain, first)) != list(map(_plain, second)):
            problems.append("answers otherwise when it is asked again")
        if _texts(view) != before:
            problems.append("changed the graph")
        found += [Finding("capability", case.name, text) for text in problems]
    return found


def _view(case: Case) -> GraphView:
    from ort_lite import plugins
    from ort_lite.stages.annotate import annotate
    from ort_lite.stages.load import load

    model, rules = load(case.model.SerializeToString()), plugins.shape_rules()
    annotate(model.graph, rules)
    return GraphView(model.graph, rules=rules)


def _texts(view: GraphView) -> list[str]:
    return [f"{node!r} {node.version} {node.name} {node.attributes}" for node in view.graph]


def _answers(kit: Kit, view: GraphView) -> list[Capability | Rejection]:
    return list(kit.make().get_capability(view))


def _nodes(answer: Capability | Rejection) -> Sequence[Any]:
    return [answer.node] if isinstance(answer, Rejection) else list(answer.nodes)


def _rejections(answers: Sequence[Capability | Rejection]) -> list[Rejection]:
    return [answer for answer in answers if isinstance(answer, Rejection)]


def _plain(answer: Capability | Rejection) -> tuple[Any, ...]:
    if isinstance(answer, Rejection):
        return "declined", answer.node, answer.code, answer.detail
    return "claimed", tuple(answer.nodes), answer.merge, answer.minimum, answer.whole


def claims(kit: Kit) -> list[Finding]:
    """What it claims it can compile and run, and the result is the CPU provider's and the one that ONNX expects."""
    found = []
    for case in kit.claimed:
        text = _result_of(kit, case, case.model, case.feed, case.expected)
        if text is not None:
            found.append(Finding("claims", case.name, text))
    return found


def _result_of(kit: Kit, case: Case, model: Any, feed: dict[str, Any] | Any, expected: Sequence[Any]) -> str | None:
    try:
        got = kit.session(model).run(None, copied(feed))
    except Exception as error:  # noqa: BLE001  # whatever the provider lets out is the finding
        return f"it claims {', '.join(case.operators)}, and then: {type(error).__name__}: {error}"
    return compare(got, expected, case.rtol, case.atol)


def shapes(kit: Kit) -> list[Finding]:
    """With open dimensions it runs other sizes, of one and empty ones too, and numbers (0-d), as the CPU provider does.

    A size that the CPU provider refuses is no size of the operator's.
    """
    found = []
    for case in kit.some:
        model = cases.with_open_dimensions(case)
        session, reference = _made(partial(kit.session, model)), _made(partial(kit.reference, model))
        if isinstance(session, Exception) or isinstance(reference, Exception):
            if not isinstance(reference, Exception):
                found.append(Finding("shapes", case.name, f"open dimensions: {session}"))
            continue
        for label, feed in (("as it is", copied(case.feed)), *cases.other_sizes(case)):
            wanted = _ran(reference, feed)
            if isinstance(wanted, Exception):
                continue
            got = _ran(session, feed)
            text = str(got) if isinstance(got, Exception) else compare(got, wanted, case.rtol, case.atol)
            if text is not None:
                found.append(Finding("shapes", f"{case.name}, {label}", text))
        found += _numbers(kit, case)
    return found


def _numbers(kit: Kit, case: Case) -> list[Finding]:
    """The operator on 0-d inputs, where all of them may be."""
    feed = cases.scalars(case)
    if feed is None or len(set(case.operators)) > 1:
        return []
    model = cases.with_rank_0(case)
    wanted = _made(lambda: kit.reference(model).run(None, feed))
    if isinstance(wanted, Exception):
        return []
    got = _new_result(kit, model, feed)
    text = str(got) if isinstance(got, Exception) else compare(got, wanted, case.rtol, case.atol)
    return [] if text is None else [Finding("shapes", f"{case.name}, 0-d", text)]


def _new_result(kit: Kit, model: Any, feed: Mapping[str, Any]) -> Any:
    """Of a new session: the outputs, or the exception."""
    return _made(lambda: kit.session(model).run(None, copied(feed)))


def _made(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:  # noqa: BLE001  # as data: checks decide what it means
        return error


def groups(kit: Kit) -> list[Finding]:
    """Partitions of several nodes: a value in the middle is an output too, a foreign node is in between, bodies capture."""
    found = []
    for label, model, feed in cases.of_several_nodes(kit.unary):
        wanted = kit.reference(model).run(None, feed)
        got = _new_result(kit, model, feed)
        text = str(got) if isinstance(got, Exception) else compare(got, wanted, 1e-3, 1e-5)
        if text is not None:
            found.append(Finding("groups", label, text))
    return found


def inputs_untouched(kit: Kit) -> list[Finding]:
    """It writes neither to what the caller feeds nor to the model's constants."""
    found = []
    for case, session in _sessions(kit):
        feed = copied(case.feed)
        held = [(value.name, value.constant) for value in _constants(session)]
        before = [array.tobytes() for _, array in held]
        session.run(None, feed)
        for name, array in feed.items():
            if array.tobytes() != np.asarray(case.feed[name]).tobytes():
                found.append(Finding("inputs_untouched", case.name, f"it wrote to input {name!r}"))
        for (name, array), bits in zip(held, before, strict=True):
            if array.tobytes() != bits:
                found.append(Finding("inputs_untouched", case.name, f"it wrote to constant {name!r}"))
    return found


def outputs_owned(kit: Kit) -> list[Finding]:
    """Each result is the caller's: it shares no memory with an input, a constant, another output or a later result."""
    found = []
    for case, session in _sessions(kit):
        feed = copied(case.feed)
        first = session.run(None, feed)
        kept = [array.copy() for array in first]
        others = {name: np.zeros_like(array) if array.dtype.kind == "f" else array for name, array in feed.items()}
        second = _ran(session, others)
        for k, (array, bits) in enumerate(zip(first, kept, strict=True)):
            problems = [f"input {name!r}" for name, given in feed.items() if np.shares_memory(array, given)]
            problems += [f"constant {v.name!r}" for v in _constants(session) if np.shares_memory(array, v.constant)]
            if isinstance(second, list):
                problems += [f"output {j} of the next run" for j, b in enumerate(second) if np.shares_memory(array, b)]
            found += [Finding("outputs_owned", case.name, f"output {k} shares memory with {what}") for what in problems]
            if array.tobytes() != bits.tobytes():
                found.append(Finding("outputs_owned", case.name, f"output {k} changed with the next run"))
    return found


def statelessness(kit: Kit) -> list[Finding]:
    """A run leaves the compiled partition as it was: no attribute is set, no array in it changes. Caches by shape may grow.

    Runs are repeatable: the same inputs give the same bits, whatever ran in between.
    """
    found = []
    for case, session in _sessions(kit):
        feed = copied(case.feed)
        first = session.run(None, feed)
        compiled = kit.partitions(session)
        before = [snapshot(partition) for partition in compiled]
        others = {k: (a + a.dtype.type(1)) if a.dtype.kind == "f" else a for k, a in feed.items()}
        _ran(session, others)
        again = session.run(None, feed)
        for state, partition in zip(before, compiled, strict=True):
            found += [
                Finding("statelessness", case.name, f"a run changed {what}") for what in changed(state, snapshot(partition))
            ]
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, again, strict=True)):
            found.append(Finding("statelessness", case.name, "the same inputs gave other bits after a run with others"))
    return found


def threads(kit: Kit) -> list[Finding]:
    """Many threads in one session, each with inputs of its own, get what one alone gets, bit by bit."""
    found = []
    for case, session in _sessions(kit):
        feeds = [_scaled(case, k) for k in range(THREADS)]
        wanted = [_ran(session, feed) for feed in feeds]
        if any(isinstance(result, Exception) for result in wanted):
            continue
        problems = _hammered(session, feeds, wanted)
        if problems:
            found.append(Finding("threads", case.name, f"{problems[0]} ({len(problems)} times)"))
    return found


def _hammered(session: Any, feeds: Sequence[dict[str, Any]], wanted: Sequence[Any]) -> list[str]:
    problems: list[str] = []
    start = threading.Barrier(len(feeds))

    def hammer(feed: dict[str, Any], expected: Sequence[Any]) -> None:
        start.wait()
        for _ in range(RUNS):
            got = _made(lambda: session.run(None, feed))
            if isinstance(got, Exception):
                problems.append(f"{type(got).__name__}: {got}")
            elif any(a.tobytes() != b.tobytes() for a, b in zip(got, expected, strict=True)):
                problems.append("a result is another thread's or broken")

    workers = [threading.Thread(target=hammer, args=pair) for pair in zip(feeds, wanted, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return problems


def _scaled(case: Case, k: int) -> dict[str, Any]:
    """Floats times 1 + k / 8, all else as it is."""
    return {
        name: (array * array.dtype.type(1 + k / 8)).astype(array.dtype) if array.dtype.kind == "f" else array
        for name, array in case.feed.items()
    }


def instances(kit: Kit) -> list[Finding]:
    """Instances are apart: with sessions of two instances over two models in turn, each gives its own model's results."""
    found = []
    several = kit.some[:8]
    for case, other in zip(several, (*several[1:], *several[:1]), strict=True):
        first, second = _made(partial(kit.session, case.model)), _made(partial(kit.session, other.model))
        if isinstance(first, Exception) or isinstance(second, Exception):
            continue  # a finding of `claims`
        for session, expected in ((first, case), (second, other), (first, case)):
            got = _ran(session, expected.feed)
            text = str(got) if isinstance(got, Exception) else compare(got, expected.expected, expected.rtol, expected.atol)
            if text is not None:
                found.append(Finding("instances", f"{case.name} beside {other.name}", text))
    return found


def release(kit: Kit) -> list[Finding]:
    """When a session is gone, so is what was compiled for it: nothing global keeps partitions alive."""
    found = []
    for case in kit.some[:8]:
        session = _made(partial(kit.session, case.model))
        if isinstance(session, Exception):
            continue
        session.run(None, copied(case.feed))
        alive = [r for p in kit.partitions(session) if (r := _reference(p)) is not None]
        del session
        gc.collect()
        if any(reference() is not None for reference in alive):
            found.append(Finding("release", case.name, "the compiled partition outlives its session"))
    return found


def _reference(partition: Any) -> "weakref.ref[Any] | None":
    try:
        return weakref.ref(partition)
    except TypeError:  # functions of C, objects with slots
        return None


def allocator(kit: Kit) -> list[Finding]:
    """The ledger: what is allocated is freed, once, at addresses that are multiples of 64, and runs leave nothing behind."""
    from ort_lite.testing.ledger import Ledger

    found: list[Finding] = []
    provider = kit.make()
    memory = provider.allocator()
    if memory is None:
        return []
    if memory.device != provider.device:
        found.append(Finding("allocator", "", f"it allocates on {memory.device}; the provider is on {provider.device}"))
    found += [Finding("allocator", "", text) for text in Ledger.of(memory).trials()]
    for case in kit.some[:8]:
        own = kit.make()
        session = _made(partial(kit.session, case.model, own))
        memory = own.allocator()
        if isinstance(session, Exception) or memory is None:
            continue
        session.run(None, copied(case.feed))
        ledger = Ledger.of(memory)
        before = ledger.in_use()
        for _ in range(5):
            session.run(None, copied(case.feed))
        gc.collect()
        after = ledger.in_use()
        if before is not None and after is not None and after > before:
            found.append(Finding("allocator", case.name, f"5 runs left {after - before} bytes behind"))
        found += [Finding("allocator", case.name, text) for text in ledger.problems]
    return found


def errors(kit: Kit) -> list[Finding]:
    """A run that fails, or runs with other sizes, leave the session as it was: the next one gives what the first gave."""
    found: list[Finding] = []
    for case in kit.some:
        model = cases.with_open_dimensions(case)
        session = _made(partial(kit.session, model))
        if isinstance(session, Exception):
            continue  # a finding of `shapes`
        wanted = _ran(session, case.feed)
        for _, feed in cases.other_sizes(case):
            _ran(session, feed)
        again = _ran(session, case.feed)
        if isinstance(again, Exception) and not isinstance(wanted, Exception):
            found.append(Finding("errors", case.name, f"after runs of other sizes: {again}"))
        elif isinstance(again, list) and any(a.tobytes() != b.tobytes() for a, b in zip(again, wanted, strict=True)):
            found.append(Finding("errors", case.name, "after runs of other sizes the result is another"))
    return found


def _ran(session: Any, feed: Mapping[str, Any]) -> Any:
    """The outputs, or the exception."""
    return _made(lambda: session.run(None, copied(feed)))


def _sessions(kit: Kit) -> Iterator[tuple[Case, Any]]:
    """A session for each operator's case; those that cannot be made or run are findings of `claims`."""
    for case in kit.some:
        session = _made(partial(kit.session, case.model))
        if not isinstance(session, Exception) and not isinstance(_ran(session, case.feed), Exception):
            yield case, session


def _constants(session: Any) -> list[Any]:
    held = [v for p in session._prepared.assignment.partitions for v in p.constants]
    return [v for v in dict.fromkeys(held) if isinstance(v.constant, np.ndarray) and v.constant.dtype != object]


ALL: tuple[Callable[[Kit], list[Finding]], ...] = (
    contract, capability, claims, shapes, groups, inputs_untouched, outputs_owned, statelessness, threads, instances, release,
    allocator, errors,
)  # fmt: skip
