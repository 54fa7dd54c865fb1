"""get_capability and the hooks that sessions ask: what they raise, and answers that they do not have."""

from collections.abc import Callable
from typing import Any

import numpy as np

import ort_lite
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.partition.cost.strategy import CostStrategy
from ort_lite.provider import Capability, GraphView, Rejection
from tests.nasty.cases import NASTY, feeds, nasty, options, raises, ran, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, table

ERRORS = {"theirs": OSError("bus"), "ours": InvalidGraph("ours"), "silent": ValueError(), "stop": StopIteration()}
STRANGER = Node("Abs", [], [])


def claims(make: Callable[[list[Node]], Any]) -> Any:
    """get_capability out of the nodes that are offered."""
    return nasty(get_capability=lambda self, view: make([node for node in view if node.op_type == "Abs"]))


CAPABILITY: Any = Capability
REJECTION: Any = Rejection
"""Called with what they do not take."""


def changes(view: Any) -> list[Any]:
    """Takes a node out of the graph that it is shown."""
    nodes = list(view)
    nodes[-1].graph.remove(nodes[-1])
    return [Capability(nodes[:1])]


# Answers of get_capability that are none; those that a session can do without.
NONSENSE: dict[str, Callable[[list[Node]], Any]] = {
    "none": lambda nodes: None,
    "number": lambda nodes: 3,
    "text": lambda nodes: "Abs",
    "nodes": lambda nodes: nodes,
    "nones": lambda nodes: [None],
    "classes": lambda nodes: [Capability, Rejection],
    "map": lambda nodes: dict.fromkeys(nodes, True),
    "capability-of-none": lambda nodes: [CAPABILITY(None)],
    "capability-of-a-number": lambda nodes: [CAPABILITY(7)],
    "capability-of-names": lambda nodes: [CAPABILITY([node.name for node in nodes])],
    "capability-of-nones": lambda nodes: [CAPABILITY([None])],
    "minimum-a-text": lambda nodes: [CAPABILITY(nodes, minimum="2")],
    "minimum-none": lambda nodes: [CAPABILITY(nodes, minimum=None)],
    "rejection-of-none": lambda nodes: [REJECTION(None, "operator", "no")],
    "rejection-of-a-list": lambda nodes: [REJECTION(nodes, "operator", "no")],
    "unhashable": lambda nodes: [CAPABILITY([[node] for node in nodes])],
}
HARMLESS: dict[str, Callable[[list[Node]], Any]] = {
    "nothing": lambda nodes: [],
    "an-empty-capability": lambda nodes: [Capability([])],
    "a-node-twice": lambda nodes: [Capability([*nodes, *nodes])],
    "a-capability-twice": lambda nodes: [Capability(nodes), Capability(nodes)],
    "taken-and-declined": lambda nodes: [Capability(nodes), *(Rejection(n, "mood", "no") for n in nodes)],
    "declined-and-taken": lambda nodes: [*(Rejection(n, "mood", "no") for n in nodes), Capability(nodes)],
    "a-stranger": lambda nodes: [Capability([STRANGER])],
    "a-stranger-beside": lambda nodes: [Capability([*nodes, STRANGER])],
    "a-rejected-stranger": lambda nodes: [Rejection(STRANGER, "operator", "no"), Capability(nodes)],
    "a-minimum-that-is-never-reached": lambda nodes: [Capability(nodes, minimum=10**9)],
    "a-minimum-below-0": lambda nodes: [Capability(nodes, minimum=-1)],
    "whole-without-body": lambda nodes: [Capability(nodes, whole=True)],
    "no-merge": lambda nodes: [Capability(nodes, merge=False)],
    "a-set": lambda nodes: {Capability(tuple(nodes))},
    "a-generator": lambda nodes: (Capability([node]) for node in nodes),
    "across": lambda nodes: [Capability(tuple(nodes))],
    "reversed": lambda nodes: [Capability(nodes[::-1])],
    "a-code-of-words": lambda nodes: [Rejection(node, "so so", "") for node in nodes],
    "a-code-that-is-none": lambda nodes: [REJECTION(node, None, None) for node in nodes],
}

# Hooks that a session asks, with answers that they do not have.
ANSWERS: dict[str, dict[str, Any]] = {
    "fusions": {"none": None, "number": 3, "text": "all", "an-unknown-name": ["no_such_transform"], "a-class": [Graph]},
    "data_transfer": {"number": 3, "object": object(), "class-of-none": type(None)},
    "available_resource": {"number": 4, "text": "1 GB", "nan": float("nan")},
    "preferred_layout": {"typo": "NCWH", "number": 3, "list": ["NHWC"], "lower": "nhwc"},
    "supports_type": {"none": None, "text": "yes", "number": 1},
    "shape_rules": {"none": None, "number": 3, "text": "all", "numbers": [3]},
    "schemas": {"none": None, "number": 3, "text": "all", "numbers": [3]},
}
COSTS: dict[str, dict[str, Any]] = {
    "cost": {"text": "fast", "bool": True, "below-0": -1.0, "nan": np.nan, "inf": np.inf, "array": np.ones(2)},
    "overhead": {"number": 0.5, "text": "none", "tuple": (0, 0, 1)},
}
ANSWERED_LATER: dict[str, dict[str, Any]] = {
    "get_options": {"none": None, "list": [("a", 1)]},
    "end_profiling": {"none": None, "texts": ["event"], "number": 7},
}


def hooked(hook: str, member: Any) -> Any:
    if hook == "supports_type":
        return session("half", nasty("Abs", supports_type=member)).run(None, feeds("half"))
    return ran("chain", nasty("Abs Neg", **{hook: member}))


def by_cost(hook: str, member: Any) -> Any:
    return ran("chain", nasty("Abs", **{hook: member}), partitioning=CostStrategy(CostModel()))


def later(hook: str, member: Any) -> Any:
    with_ = options()
    with_.enable_profiling = hook == "end_profiling"
    with_.profile_file_prefix = "/dev/null/none"
    made = session("chain", nasty("Abs", **{hook: member}), with_=with_)
    made.run(None, feeds("chain"))
    return made.end_profiling() if hook == "end_profiling" else made.get_provider_options()


def act(way: Callable[[str, Any], Any], hook: str, member: Any) -> Case:
    return Case(lambda: way(hook, member), (NASTY, hook))


def _hooks() -> Any:
    for way, answers in ((hooked, ANSWERS), (by_cost, COSTS), (later, ANSWERED_LATER)):
        for hook, wrong in answers.items():
            for name, answer in wrong.items():
                case = act(way, hook, says(answer))
                yield f"{hook}-{name}", case._replace(either=hook == "supports_type")
            for name, error in ERRORS.items():
                member = raises(error)
                yield f"{hook}-raises-{name}", act(way, hook, member)._replace(either=hook == "supports_type")


# What a class of providers says of itself.
MEMBERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "api-version-a-number": ({"api_version": 2}, (NASTY,)),
    "api-version-of-tomorrow": ({"api_version": "9.0"}, (NASTY, "9.0")),
    "api-version-of-words": ({"api_version": "newest"}, (NASTY,)),
    "concurrency-a-word": ({"concurrency": "sometimes"}, (NASTY, "sometimes")),
    "concurrency-none": ({"concurrency": None}, (NASTY, "None")),
    "concurrency-a-list": ({"concurrency": ["serial"]}, (NASTY, "serial")),
    "per-thread-without-a-state": ({"concurrency": "per-thread"}, (NASTY, "create_state")),
    "device-a-text": ({"device": "gpu"}, (NASTY, "device")),
    "device-none": ({"device": None}, (NASTY, "device")),
    "config-keys-none": ({"config_keys": None}, (NASTY, "config_keys")),
    "config-keys-numbers": ({"config_keys": [3]}, (NASTY, "config_keys")),
    "name-a-number": ({"name": 7}, ("Nasty",)),
    "name-empty": ({"name": ""}, ()),
}


def changed_graph() -> Any:
    return ran("chain", nasty(get_capability=lambda self, view: changes(view)))


def renamed_value() -> Any:
    def rename(self: Any, view: GraphView) -> list[Any]:
        for node in view:
            node.output.name = "same"
        return [Capability([node]) for node in view if node.op_type == "Abs"]

    return ran("chain", nasty(get_capability=rename))


def claims_what_others_have() -> Any:
    greedy = nasty("", get_capability=lambda self, view: [Capability([node]) for node in view.graph])
    taken = nasty("Abs Neg Relu")
    made = session("chain", taken, greedy)
    return [(made.run(None, feeds("chain")), wanted("chain"))]


def never_the_same() -> Any:
    """It takes a node at one time and declines it at another."""
    asked: list[int] = []

    def moody(self: Any, view: GraphView) -> list[Any]:
        asked.append(1)
        return [Capability([node]) for node in view if len(asked) % 2 and node.op_type == "Abs"]

    return ran("branch", nasty(get_capability=moody))


def many_instances() -> Any:
    return ran("chain", *(nasty("Abs") for _ in range(40)))


CASES: Table = table(
    [
        *(
            (f"nonsense-{name}", Case(lambda make=make: ran("chain", claims(make)), (NASTY, "get_capability")))
            for name, make in NONSENSE.items()
        ),
        *(
            (f"harmless-{name}", Case(lambda make=make, m=model: ran(m, claims(make))))
            for name, (model, make) in crossed(model={"chain": "chain", "split": "split"}, answer=HARMLESS)
        ),
        *((f"raises-{name}", act(hooked, "get_capability", raises(error))) for name, error in ERRORS.items()),
        *((f"configure-raises-{name}", act(hooked, "configure", raises(error))) for name, error in ERRORS.items()),
        *_hooks(),
        *((name, Case(lambda m=members: ran("chain", nasty(**m)), names)) for name, (members, names) in MEMBERS.items()),
        ("changes-the-graph", Case(changed_graph, (NASTY, "get_capability"))),
        ("renames-values", Case(renamed_value, (NASTY, "get_capability"), either=True)),
        ("claims-what-others-have", Case(claims_what_others_have)),
        ("never-answers-the-same", Case(never_the_same)),
        ("forty-instances", Case(many_instances)),
        ("it-is-no-provider", Case(lambda: ran("chain", object()))),  # a warning and the CPU provider, as in onnxruntime
        ("it-is-another-class", Case(lambda: ran("chain", dict), ("dict",))),
        (
            "its-class-raises",
            Case(
                lambda: ran(
                    "chain",
                    type("Nasty", (ort_lite.provider.ExecutionProvider,), {"name": NASTY, "__init__": raises(OSError("no"))}),
                ),
                (NASTY, "OSError: no"),
            ),
        ),
    ]
)
