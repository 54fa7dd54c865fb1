"""Whoever failed is named, and what the others hold is released or kept all the same."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, NoDevice, OrtLiteError, ProviderError
from ort_lite.graph import Graph, Node, Value
from ort_lite.inference import shape_rule
from ort_lite.plugins import plugins
from ort_lite.provider import ExecutionProvider, Partition, ProfileEvent, Resource
from ort_lite.session.composite import CompositeProvider
from ort_lite.transform import Rewriter, graph_pass
from tests.execute.test_device_inputs import CRATE, Transfer
from tests.nasty.cases import NASTY, NastyDevice, compiled_to, feeds, nasty, options, raises, ran, says, session, wanted
from tests.nasty.devices import crate
from tests.nasty.judging import Case, Table, crossed, table
from tests.nasty.rules import WAYS
from tests.provider.numpy_provider import NumpyProvider, evaluate

ERRORS: dict[str, Exception] = {
    "theirs": OSError("bus"),
    "ours": InvalidArgument("bus"),
    "zero": ZeroDivisionError("bus"),
    "stop": StopIteration("bus"),
}
WHO = rf"{NASTY}_\d+"


def failing(act: Callable[[], Any], *names: str) -> None:
    """The error has these names in its text or its notes."""
    with pytest.raises(OrtLiteError) as caught:
        act()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    missing = [name for name in names if name not in text]
    assert not missing, f"{missing} not in {caught.value!r}"


# Facts


class Stated:
    """A partition with a state, which it counts, and facts."""

    def __init__(self, partition: Partition, counts: dict[str, int], facts: Callable[..., Any]) -> None:
        self.partition, self.counts, self.facts = partition, counts, facts

    def create_state(self) -> str:
        self.counts["made"] = self.counts.get("made", 0) + 1
        return "state"

    def release_state(self, state: str) -> None:
        self.counts["released"] = self.counts.get("released", 0) + 1

    def __call__(self, inputs: Sequence[Any], state: str) -> list[Any]:
        return evaluate(self.partition, inputs)


def closed_in_spite_of(facts: Callable[..., Any]) -> None:
    """All states are released, the session is closed, and `close` raises what `facts` raised."""
    counts: dict[str, int] = {}
    made = session("split", compiled_to(lambda p: Stated(p, counts, facts), "Abs Neg Relu"))
    made.run(None, feeds("split"))
    failing(made.close, NASTY, "facts", "bus")
    assert counts["made"] == counts["released"] > 0
    failing(lambda: made.run(None, feeds("split")), "closed")
    made.close()
    assert NASTY in str(made.explain())


FACTS: dict[str, Any] = {
    "steps-a-text": {"python_steps": "many"},
    "steps-none": {"python_steps": None},
    "steps-a-float": {"python_steps": 1.5},
    "steps-true": {"python_steps": True},
    "a-list": {"kernels": [1, 2]},
    "an-array": {"kernels": np.ones(3)},
    "a-number-for-a-name": {3: 4},
    "nan": {"kernels": float("nan")},
}


def explained(facts: Any) -> None:
    made = session("chain", compiled_to(lambda p: Stated(p, {}, says(facts))))
    failing(lambda: made.explain().python_steps, NASTY, "facts")


def numbers_of_numpy() -> None:
    made = session("chain", compiled_to(lambda p: Stated(p, {}, says({"python_steps": np.int64(2), "kind": "x"}))))
    json.loads(made.explain().to_json())
    assert made.explain().python_steps == 2


# Answers


RESOURCES: dict[str, Any] = {
    "nodes-a-text": {"nodes": "3"},
    "bytes-a-text": {"nbytes": "1 GB"},
    "nodes-a-float": {"nodes": 1.5},
    "nodes-below-0": {"nodes": -1},
    "bytes-nan": {"nbytes": float("nan")},
    "nodes-true": {"nodes": True},
    "nodes-a-list": {"nodes": [3]},
}
EVENTS: dict[str, Any] = {
    "begin-a-text": ("run", "1", 2),
    "end-none": ("run", 1, None),
    "name-none": (None, 1, 2),
    "thread-a-text": ("run", 1, 2, {}, "main"),
    "args-a-list": ("run", 1, 2, [1]),
}


def roomy(fields: dict[str, Any]) -> None:
    failing(
        lambda: session("chain", nasty("Abs Neg", available_resource=says(Resource(**fields)))), NASTY, "available_resource"
    )


def profiled(*providers: Any) -> tuple[Any, str]:
    with_ = options()
    with_.enable_profiling = True
    with_.profile_file_prefix = os.path.join(tempfile.mkdtemp(prefix="nasty"), "profile")
    made = session("split", *providers, with_=with_)
    made.run(None, feeds("split"))
    return made, os.path.dirname(with_.profile_file_prefix)


def told_event(fields: Any) -> None:
    event: Any = ProfileEvent(*fields)
    made, _ = profiled(nasty("Abs", end_profiling=says([event])))
    failing(made.end_profiling, NASTY, "end_profiling")


def other_events_are_kept() -> None:
    """One provider fails to say what it recorded: the file is written, with what the other one recorded."""
    good = nasty("Neg", name="GoodExecutionProvider", end_profiling=says([ProfileEvent("good work", 1, 2)]))
    made, folder = profiled(nasty("Abs", end_profiling=raises(OSError("bus"))), good)
    failing(made.end_profiling, NASTY, "end_profiling", "bus")
    (file,) = Path(folder).iterdir()
    assert "good work" in file.read_text()
    assert made.end_profiling() == ""


def creation_events_name_providers() -> None:
    """Two instances of one class are told apart, in the profile as in the trace."""
    made, _ = profiled(nasty("Abs"), nasty("Neg"))
    events = json.loads(Path(made.end_profiling()).read_text())
    told = {(event["name"], event["args"].get("provider")) for event in events if event.get("cat") in ("Creation", "Session")}
    for name in ("get_capability", "compile_partitions"):
        found = {provider for other, provider in told if other == name}
        assert {NASTY, f"{NASTY}#2", "CPUExecutionProvider"} <= found, (name, found)


# Creation


def refusing(error: Exception) -> Callable[..., None]:
    def create(self: Any, **chosen: Any) -> None:
        raise error

    return create


def refused(error: Exception, kind: type[Exception]) -> None:
    cls = type("Nasty", (ExecutionProvider,), {"name": NASTY, "__init__": refusing(error)})
    with pytest.raises(kind, match=rf"{NASTY}.*bus"):
        session("chain", (cls, {"mood": "bad"}))


def without_a_device() -> Any:
    cls = type("Nasty", (ExecutionProvider,), {"name": NASTY, "__init__": refusing(NoDevice("bus"))})
    return ran("chain", cls)


PROPERTIES = ("device", "concurrency", "config_keys", "exact", "writes_no_input")


def property_of_a_provider(name: str, error: Exception) -> None:
    failing(lambda: session("chain", nasty(**{name: property(raises(error))})), NASTY, name, "bus")


def property_of_a_partition(name: str, error: Exception) -> None:
    cls = type("With", (Stated,), {name: property(raises(error))})
    failing(lambda: used(session("weights", compiled_to(lambda p: cls(p, {}, says({})), "Mul"))), "With", name, "bus")


def used(made: Any) -> None:
    made.run(None, feeds("weights"))
    made.explain()
    made.memory()
    made.trim()
    made.close()


ABILITIES = ("memory", "trim", "absorbed")


class Absorbing:
    """Absorbs its constants, and says how to make them again."""

    def __init__(self, partition: Partition, restorer: Callable[..., Any]) -> None:
        self.partition, self.absorbed = partition, partition.constants
        self.restorer = restorer

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return evaluate(self.partition, inputs)


def restoring(restorer: Callable[..., Any]) -> None:
    failing(lambda: session("weights", compiled_to(lambda p: Absorbing(p, restorer), "Mul")), NASTY, "restorer", "'w'")


# Passes and plugins


def moved(change: Callable[[Graph, Rewriter], int]) -> Any:
    @graph_pass(level="basic", name="mischief")
    def mischief(graph: Graph, rewriter: Rewriter) -> int:
        return change(graph, rewriter)

    return mischief


def last_first(graph: Graph, rewriter: Rewriter, count: int = 1) -> int:
    """A copy of the last node but one comes first, before what it reads; other transforms still find something to do."""
    last = next((node for node in graph if node.op_type == "Relu"), None)
    if last is None or last.graph is not graph or graph.nodes[0].op_type == "Relu":
        return 0
    copy = Node("Relu", [last.inputs[0]], [Value("copy", last.output.type)], version=last.version, name="copy")
    graph.insert_before(graph.nodes[0], copy)
    last.output.replace_all_uses_with(copy.output)
    return count


def silently(graph: Graph, rewriter: Rewriter) -> int:
    return last_first(graph, rewriter, 0)


def besides_a_change(graph: Graph, rewriter: Rewriter) -> int:
    """It also does something that the Rewriter knows of."""
    for node in graph.nodes:
        if node.op_type == "Tanh":
            rewriter.anchor = node
            rewriter.replace(node, rewriter.op("Sin", node.inputs[0]))
            return 1 + last_first(graph, rewriter)
    return 0


def reads_what_comes_later(graph: Graph, rewriter: Rewriter) -> int:
    nodes = graph.nodes
    if nodes[0].inputs[0] is nodes[1].output:
        return 0
    nodes[0].replace_input(0, nodes[1].output)
    return 1


MOVES = {"last-first": last_first, "silently": silently, "besides-a-change": besides_a_change, "later": reads_what_comes_later}


def out_of_order(way: Callable[..., Any], change: Callable[[Graph, Rewriter], int]) -> None:
    failing(lambda: way(moved(change), "split"), "mischief")


def ruled(answer: Callable[[Any], Any]) -> None:
    """The rule of a provider's own operator is named, with the node."""

    def rule_of_mine(op: Any) -> Any:
        return answer(op)

    text = '<ir_version: 10, opset_import: ["": 17, "mine": 1]> main (float[N] x) => (float[N] y) { [n] y = mine.Mine(x) }'
    provider = nasty(
        "Mine", operators="Mine", shape_rules=classmethod(lambda cls: shape_rule("Mine", domain="mine")(rule_of_mine))
    )
    failing(lambda: ort_lite.InferenceSession(onnx.parser.parse_model(text), options(), [provider]), "rule_of_mine", "Mine 'n'")


RULES: dict[str, Callable[[Any], Any]] = {
    "raises": raises(KeyError("oops")),
    "none": says(None),
    "number": says(3),
    "text": says("float"),
    "nones": says([None]),
    "types": lambda op: [op.inputs[0].type],
}


# Devices


def nothing_is_copied(takes: str, model: str) -> Any:
    """A partition on a device returns None for a tensor: the copy home is not blamed, and its transfer sees nothing of it."""
    provider = nasty(takes, NastyDevice, compile=lambda self, ps: [lambda inputs, p=p: [None for _ in p.outputs] for p in ps])
    return ran(model, provider)


def first_error_counts() -> None:
    """`copy_into` fails, and then `free` does."""
    provider = crate(raises(OSError("first")), free=raises(OSError("second")))
    failing(lambda: ran("open", provider), "first")


def all_are_trimmed(error: Exception) -> None:
    trimmed: list[str] = []

    def trim(self: Any) -> None:
        trimmed.append(self.partition.name)
        if len(trimmed) == 1:
            raise error

    cls = type("With", (Stated,), {"trim": trim})
    made = session("split", compiled_to(lambda p: cls(p, {}, says({})), "Abs Neg"))
    failing(made.trim, NASTY, "trim", "bus")
    assert len(trimmed) == len(made.memory_plans() or trimmed) >= 2


def can_copy_of_a_value(error: Exception) -> None:
    """Values that stay on a device ask its transfer too."""
    transfer = type("Crates", (Transfer,), {"can_copy": raises(error)})()
    provider = nasty("Abs", NastyDevice, data_transfer=says(transfer), device=CRATE)
    failing(lambda: session("open", provider), "Crates", "can_copy", "bus")


# Children of a composite


def child(hook: str, error: Exception) -> None:
    """The hook of one child fails: it is named, and the other one is told all the same."""
    told: list[str] = []
    good = nasty("Neg", name="GoodExecutionProvider", **{hook: lambda self, *arguments: told.append(hook)})
    made = session("split", CompositeProvider([good, nasty("Abs", **{hook: raises(error)})]))
    failing(lambda: made.run(None, feeds("split")), NASTY, hook, "bus")
    assert told


def a_composite_s_child_cannot_be_made() -> None:
    cls = type("Nasty", (ExecutionProvider,), {"name": NASTY, "__init__": refusing(InvalidArgument("bus"))})
    failing(lambda: CompositeProvider([cls]), NASTY, "bus")


def registered_devices(error: Exception) -> None:
    """A provider that fails to say its devices does not hide the others."""
    plugins.register_provider(
        NASTY, type("Nasty", (NumpyProvider,), {"name": NASTY, "supported_devices": classmethod(raises(error))})
    )
    assert any(found.ep_name == "CPUExecutionProvider" for found in ort_lite.get_ep_devices())
    failing(lambda: ort_lite.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32), "nowhere", 0), NASTY)


def right() -> Any:
    """The same classes without a fault."""
    counts: dict[str, int] = {}
    made = session("split", compiled_to(lambda p: Stated(p, counts, says({"kernels": 1, "kind": "x"})), "Abs Neg"))
    result = made.run(None, feeds("split"))
    made.close()
    assert counts["made"] == counts["released"]
    return [(result, wanted("split"))]


def _cases() -> Iterator[tuple[str, Case]]:
    for name, error in ERRORS.items():
        yield f"close-facts-{name}", Case(lambda e=error: closed_in_spite_of(raises(e)))
        kind = InvalidArgument if name == "ours" else ProviderError
        yield f"created-{name}", Case(lambda e=error, k=kind: refused(e, k))
        yield f"restorer-{name}", Case(lambda e=error: restoring(raises(e)))
        yield f"trim-{name}", Case(lambda e=error: all_are_trimmed(e))
        yield f"can-copy-{name}", Case(lambda e=error: can_copy_of_a_value(e))
        yield f"devices-{name}", Case(lambda e=error: registered_devices(e))
    for name, facts in FACTS.items():
        yield f"facts-{name}", Case(lambda f=facts: explained(f))
    for name, fields in RESOURCES.items():
        yield f"resource-{name}", Case(lambda f=fields: roomy(f))
    for name, fields in EVENTS.items():
        yield f"event-{name}", Case(lambda f=fields: told_event(f))
    for name, (attribute, error) in crossed(
        attribute={p: p for p in PROPERTIES}, error={"os": ERRORS["theirs"], "ours": ERRORS["ours"]}
    ):
        yield f"property-{name}", Case(lambda a=attribute, e=error: property_of_a_provider(a, e))
    for attribute in ABILITIES:
        yield f"partition-property-{attribute}", Case(lambda a=attribute: property_of_a_partition(a, ERRORS["theirs"]))
    for name, made in {"none": None, "number": 3}.items():
        yield f"restorer-returns-{name}", Case(lambda m=made: restoring(says(m)))
    for name, (way, change) in crossed(way=WAYS, change=MOVES):
        yield f"order-{name}", Case(lambda w=way, c=change: out_of_order(w, c))
    for name, answer in RULES.items():
        yield f"rule-{name}", Case(lambda a=answer: ruled(a))
    for takes, model in (("Abs", "last"), ("Abs", "open"), ("Abs Neg", "two")):
        names = (WHO, "None", "box:0")
        yield (
            f"none-from-a-device-{takes.replace(' ', '-')}-{model}",
            Case(lambda t=takes, m=model: nothing_is_copied(t, m), names),
        )
    for name, (hook, error) in crossed(
        hook={h: h for h in ("on_run_end", "sync")}, error={"os": ERRORS["theirs"], "ours": ERRORS["ours"]}
    ):
        yield f"child-{name}", Case(lambda h=hook, e=error: child(h, e))


CASES: Table = table(
    [
        *_cases(),
        ("right", Case(right)),
        ("facts-of-numpy", Case(numbers_of_numpy)),
        ("no-device", Case(without_a_device)),
        ("other-events-are-kept", Case(other_events_are_kept)),
        ("creation-events-name-providers", Case(creation_events_name_providers)),
        ("first-error-counts", Case(first_error_counts)),
        ("child-of-a-composite", Case(a_composite_s_child_cannot_be_made)),
    ]
)
