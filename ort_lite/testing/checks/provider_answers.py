"""Checks of a provider's answers before anything runs: its contract and its claims."""

from collections.abc import Sequence
from typing import Any

from ort_lite.errors import OrtLiteError
from ort_lite.execute.guard import CONCURRENCIES
from ort_lite.graph.graph import Node
from ort_lite.provider.provider import API_VERSION, Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.testing.cases import Case
from ort_lite.testing.kit import Finding, Kit

Answers = Sequence[Capability | Rejection]


def contract(kit: Kit) -> list[Finding]:
    """Check that the provider has a name and a supported API version, returns its options as a dict and rejects unknown ones."""
    provider = kit.make()
    found = []
    if not provider.name:
        found.append("it has no name")
    if str(provider.api_version).split(".")[0] != API_VERSION.split(".")[0]:
        found.append(f"api_version is {provider.api_version!r}; this is {API_VERSION!r}")
    if provider.concurrency not in CONCURRENCIES:
        found.append(f"concurrency is {provider.concurrency!r}; expected one of {', '.join(CONCURRENCIES)}")
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
    """Check that `get_capability` answers for each node that it is shown, the same twice, with a reason for each node it declines.

    It must not claim nodes that the view does not hold, for example because others claimed them, and must not change anything.
    """
    found = []
    for case in (*kit.some, *kit.negative_cases):
        found += [Finding("capability", case.name, text) for text in dict.fromkeys(_problems(kit, case))]
    return found


def _problems(kit: Kit, case: Case) -> list[str]:
    view = _view(case)
    before = _texts(view)
    provider = kit.new_provider()
    first, second = _answers(provider, view), _answers(provider, view)
    other = _answers(kit.new_provider(), view)
    free = list(view)
    told = {node for answer in first for node in _nodes(answer)}
    found = [f"says nothing of {node}" for node in free if node not in told]
    declined = [answer for answer in first if isinstance(answer, Rejection)]
    found += [f"declines {a.node} without a code or a detail" for a in declined if not (a.code and a.detail)]
    if list(map(_plain, first)) != list(map(_plain, second)):
        found.append("answers otherwise when it is asked again")
    elif list(map(_plain, first)) != list(map(_plain, other)):
        found.append("answers otherwise than another instance")
    for part in (view, GraphView(view.graph, claimed=frozenset(free[:1]), rules=view.rules)):
        taken = {node for a in _answers(provider, part) if isinstance(a, Capability) for node in a.nodes}
        found += [f"claims {node}, which the view does not hold" for node in taken - set(part)]
    if _texts(view) != before:
        found.append("changed the graph")
    return found


def _view(case: Case) -> GraphView:
    from ort_lite.inference.annotate import annotate
    from ort_lite.load.load import load
    from ort_lite.plugins import plugins

    model, rules = load(case.model.SerializeToString()), plugins.shape_rules()
    annotate(model.graph, rules)
    return GraphView(model.graph, rules=rules)


def _texts(view: GraphView) -> list[str]:
    return [f"{node!r} {node.version} {node.name} {node.attributes}" for node in view.graph]


def _answers(provider: ExecutionProvider, view: GraphView) -> Answers:
    return list(provider.get_capability(view))


def _nodes(answer: Capability | Rejection) -> Sequence[Node]:
    return [answer.node] if isinstance(answer, Rejection) else list(answer.nodes)


def _plain(answer: Capability | Rejection) -> tuple[Any, ...]:
    if isinstance(answer, Rejection):
        return "declined", answer.node, answer.code, answer.detail
    return "claimed", tuple(answer.nodes), answer.merge, answer.minimum, answer.whole
