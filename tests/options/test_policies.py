"""Framework options of a provider: what they are, and what happens when a provider is missing or fails."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import CompileError, Fail, InvalidArgument, ProviderError, RuntimeException
from ort_lite.graph import Model, Node
from ort_lite.inference import ShapeRules
from ort_lite.options.policies import Policy, split
from ort_lite.partition.partition import partition
from ort_lite.plugins import Registry, plugins
from ort_lite.provider import CPU, Capability, CompiledPartition, DataTransfer, Device, Partition
from tests.partition.random_graphs import feeds, random_graph
from tests.provider.numpy_provider import BoxTransfer, CpuStandIn, NumpyProvider, OtherDevice, evaluate, reference
from tests.provider.texts import named, plain, proto

X = np.array([1, -2, 3], np.float32)
CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c) }"
ISLANDS = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Neg(c)  y = Relu(d) }"


class Weak(NumpyProvider):
    """Cannot compile the partitions that hold the node `weak`; those that hold `faulty` fail when they run."""

    name: ClassVar[str] = "WeakExecutionProvider"

    def __init__(
        self, takes: Callable[[Node], bool] = lambda node: True, weak: str = "", faulty: str = "", **more: Any
    ) -> None:
        super().__init__(takes, **more)
        self.weak, self.faulty, self.calls = weak, faulty, 0

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [self._one(p) for p in partitions]

    def _one(self, partition: Partition) -> Any:
        outputs = {node.output.name for node in partition.nodes}
        if self.weak in outputs:
            return ZeroDivisionError(f"no {self.weak} today")
        return partial(self._fail, partition) if self.faulty in outputs else partial(evaluate, partition)

    def _fail(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        self.calls += 1
        raise ZeroDivisionError("device lost")


class Whole(Weak):
    """Raises from `compile` as a whole."""

    def _one(self, partition: Partition) -> Any:
        made = super()._one(partition)
        if isinstance(made, Exception):
            raise made
        return made


def session(text: str, *providers: Any, **more: Any) -> ort_lite.InferenceSession:
    options = plain()
    for key, value in more.pop("config", {}).items():
        options.add_session_config_entry(key, value)
    return ort_lite.InferenceSession(proto(text), options, providers=list(providers), **more)


def owners(made: ort_lite.InferenceSession) -> dict[str, str]:
    return {
        p.node.output.name: p.provider.removesuffix("ExecutionProvider") for p in made.explain().assignment.placements.values()
    }


# Options


@pytest.mark.parametrize(
    ("given", "policy", "rest"),
    [
        ({}, Policy(False, "raise", "next", "raise", None, None), {}),
        (
            {"device_id": 1, "required": "true", "on_run_error": "next", "limit_nodes": "5"},
            Policy(required=True, on_run_error="next", limit_nodes=5),
            {"device_id": 1},
        ),
        (
            {"min_subgraph_size": "3", "partitioning_stop_ops": "TopK, com.my.Op", "cpu_preferred_nodes": "1"},
            Policy(min_subgraph_size=3, partitioning_stop_ops=("TopK", "com.my.Op"), cpu_preferred_nodes=True),
            {},
        ),
        ({"partitioning_stop_ops": ["A"]}, Policy(partitioning_stop_ops=("A",)), {}),
    ],
)
def test_policies_are_taken_out_of_a_providers_options(given: dict[str, Any], policy: Policy, rest: dict[str, Any]) -> None:
    assert split(given, "P") == (policy, rest)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("min_subgraph_size", -1, "a number, 0 or more"),
        ("max_subgraph_size", 0, "a number, 1 or more"),
        ("max_partitions", "many", "a number, 1 or more"),
        ("partitioning_stop_ops", 3, "names of operators"),
        ("cpu_preferred_nodes", "perhaps", "True or False"),
        ("required", "perhaps", "True or False"),
        ("on_run_error", "retry", "'raise' or 'next'"),
        ("limit_bytes", -1, "a number, 0 or more"),
        ("limit_bytes", "1_000", "a number, 0 or more"),
        ("limit_bytes", "٣", "a number, 0 or more"),
        ("limit_nodes", "many", "a number, 0 or more"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(name: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"P: option {name} is {value!r}; expected {expected}"):
        split({name: value}, "P")


def test_a_provider_never_sees_them() -> None:
    with_policy = (NumpyProvider, {"device_id": 1, "on_compile_error": "raise"})
    made = session(CHAIN, with_policy, CpuStandIn())
    assert made.get_provider_options()["NumpyExecutionProvider"] == {"device_id": 1}


# Creation


class Broken(NumpyProvider):
    name = "BrokenExecutionProvider"

    def __init__(self, **options: Any) -> None:
        raise OSError("out of order")


def test_a_provider_that_cannot_be_created_may_be_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(paths=[])
    registry.register_provider(Broken.name, Broken)
    for name in ("provider", "installed_providers"):
        monkeypatch.setattr(plugins, name, getattr(registry, name))
    made = session(CHAIN, (Broken.name, {"on_create_error": "next"}), CpuStandIn())
    assert made.get_providers() == ["CPUExecutionProvider"]
    (message,) = caplog.messages
    assert message.endswith("out of order; it is left out")
    assert made.explain().notes == (message,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"required": True, "on_create_error": "next"}, "BrokenExecutionProvider could not be created .*out of order"),
        ({}, "BrokenExecutionProvider could not be created with options .*OSError: out of order"),
    ],
)
def test_a_required_one_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        session(CHAIN, Broken, CpuStandIn(), provider_options=[options, {}])


# Compiling


@pytest.mark.parametrize("cls", [Weak, Whole])
def test_a_partition_that_cannot_be_compiled_goes_to_the_next_and_the_rest_stands(
    cls: type[Weak], caplog: pytest.LogCaptureFixture
) -> None:
    weak, cpu = cls(named("a", "c", "y"), weak="c"), CpuStandIn()
    made = session(ISLANDS, weak, cpu)
    assert owners(made) == {"a": "Weak", "b": "CPU", "c": "CPU", "d": "CPU", "y": "Weak"}
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.maximum(-np.tanh(-np.abs(X)), 0))
    why = "WeakExecutionProvider could not compile WeakExecutionProvider_1: ZeroDivisionError: no c today"
    assert caplog.messages == [f"{why}; Tanh 'Tanh_0' goes to the next provider"]
    assert made.explain().verdicts()["Tanh_0"]["WeakExecutionProvider"].code == "compile"
    assert caplog.messages[0] in made.explain().notes
    compiled = [p.nodes[0].output.name for call in weak.compiled for p in call]
    assert cls is Whole or compiled == ["a", "c", "y"], "what was compiled stays"
    assert len(weak.asked) == 1, "what it said of the same graph holds"
    assert len(cpu.asked) == 2


def test_bodies_around_which_nothing_changed_are_kept() -> None:
    text = """(float[3] x, bool f) => (float[3] y) {
        a = Abs(x)
        b = If (f) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = n () => (float[3] e) { e = Relu(a) }>
        y = Tanh(b)
    }"""
    numpy, cpu = NumpyProvider(named("t", "e", "b")), CpuStandIn()
    made = session(text, Weak(named("y"), weak="y"), numpy, cpu)
    assert [[p.nodes[0].op_type for p in call] for call in numpy.compiled] == [["Relu"], ["Neg"], ["If"]]
    np.testing.assert_allclose(made.run(None, {"x": X, "f": np.array(True)})[0], np.tanh(-np.abs(X)))


class Unlucky(NumpyProvider):
    """Cannot compile some of the partitions, by the name of their first node."""

    name = "UnluckyExecutionProvider"

    def compile(self, partitions: Sequence[Partition]) -> Any:
        self.compiled.append(list(partitions))
        return [OSError("bad luck") if _unlucky(p) else partial(evaluate, p) for p in partitions]


def _unlucky(partition: Partition) -> bool:
    return sum(map(ord, partition.nodes[0].name)) % 3 == 0


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 7, 8, 10, 11])  # of 0 to 11 those in which a compile fails
def test_of_random_graphs_only_the_failed_partitions_change_hands(seed: int) -> None:
    graph = random_graph(seed, 40, depth=1)
    chosen = {node.name for k, node in enumerate(graph.all_nodes()) if (k * 7 + seed) % 3 and node.op_type != "If"}
    providers = [Unlucky(lambda node: node.name in chosen), NumpyProvider(lambda node: len(node.name) % 2 == 0), CpuStandIn()]
    before = partition(graph, providers, ShapeRules(()))
    wanted = {p.nodes for p in before.partitions if p.provider is providers[0] and not _unlucky(p)}
    names = [[node.name for node in nodes] for nodes in wanted]
    made = ort_lite.InferenceSession(Model(random_graph(seed, 40, depth=1), {"": 17}), plain(), providers=providers)
    found = [[node.name for node in p.nodes] for p in made.explain().assignment.partitions if p.provider is providers[0]]
    assert sorted(found) == sorted(names)
    assert len(wanted) < sum(p.provider is providers[0] for p in before.partitions), "one fails"
    inputs = feeds(seed)
    results = made.run(None, dict(zip(("x0", "x1", "flag"), inputs, strict=True)))
    for mine, right in zip(results, reference(graph, inputs), strict=True):
        np.testing.assert_array_equal(mine, right)


def test_two_failures_in_a_row_reach_the_last_provider() -> None:
    class Second(Weak):
        name = "SecondExecutionProvider"

    made = session(CHAIN, Weak(weak="b"), Second(weak="b"), CpuStandIn())
    assert set(owners(made).values()) == {"CPU"}
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.maximum(np.tanh(-np.abs(X)), 0))


def test_with_raise_the_session_is_not_made() -> None:
    with pytest.raises(CompileError, match="could not compile WeakExecutionProvider_0: ZeroDivisionError: no b today"):
        session(CHAIN, Weak(weak="b"), CpuStandIn(), provider_options=[{"on_compile_error": "raise"}, {}])


def test_where_nobody_else_takes_the_nodes_both_reasons_are_told() -> None:
    with pytest.raises(CompileError, match=r"(?s)no b today; and no provider of .*CPUExecutionProvider declined choice"):
        session(CHAIN, Weak(weak="b"), CpuStandIn(named()))


# Running


def test_a_run_that_fails_is_finished_by_the_next_provider(caplog: pytest.LogCaptureFixture) -> None:
    weak, cpu = Weak(named("b", "c"), faulty="c"), CpuStandIn()
    made = session(CHAIN, weak, cpu, provider_options=[{"on_run_error": "next"}, {}])
    for _ in range(2):
        np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.maximum(np.tanh(-np.abs(X)), 0))
    assert weak.calls == 2, "each run tries again"
    (message,) = caplog.messages
    assert message == (
        "WeakExecutionProvider_0 failed in a run: ZeroDivisionError: device lost; its nodes went to the next provider"
    )
    assert message in made.explain().notes


class Cable(BoxTransfer):
    """Copies that fail: those "in" to the device, "out" of it, or "all" once it has run."""

    def __init__(self, provider: "Frail") -> None:
        super().__init__(provider.device)
        self.provider = provider

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        broken = {"in": source == CPU, "out": destination == CPU, "all": self.provider.calls > 0 or source == CPU}
        if broken.get(self.provider.broken):
            raise OSError("cable cut")
        return super().copy(value, source, destination)


class Frail(OtherDevice):
    """A device whose memory fails in runs."""

    def __init__(self, broken: str, takes: Callable[[Node], bool]) -> None:
        super().__init__(takes)
        self.broken, self.calls = broken, 0

    def data_transfer(self) -> DataTransfer:
        return Cable(self)

    def _boxed(self, partition: Partition, inputs: Any) -> Any:
        self.calls += 1
        if self.broken == "run":
            self.broken = "all"
        elif self.broken != "compute":
            return super()._boxed(partition, inputs)
        raise OSError("device lost")


WIDE = """(float[3] x) => (float[3] y, float[3] z, float[3] b) {
    a = Abs(x)  b = Neg(a)  c = Tanh(b)  y = Relu(c)  d = Neg(c)  z = Add(d, x)
}"""


@pytest.mark.parametrize("broken", ["in", "out", "all", "run", "compute"])
@pytest.mark.parametrize("taken", ["bc", "bd", "abcdyz", "bz"])
def test_copies_that_fail_in_a_run_send_the_nodes_to_the_next(
    broken: str, taken: str, caplog: pytest.LogCaptureFixture
) -> None:
    frail = Frail(broken, named(*taken))
    made = session(WIDE, frail, CpuStandIn(), provider_options=[{"on_run_error": "next"}, {}])
    b = -np.abs(X)
    for _ in range(2):
        y, z, b_ = made.run(None, {"x": X})
        np.testing.assert_array_equal(b_, b)
        np.testing.assert_array_equal(y, np.maximum(np.tanh(b), 0))
        np.testing.assert_array_equal(z, X - np.tanh(b))
    assert any("its nodes went to the next provider" in message for message in caplog.messages)
    said = str(made.explain())
    assert "BoxExecutionProvider_0 failed in a run: " in said and "OSError: " in said


@pytest.mark.parametrize("broken", ["in", "out"])
def test_copies_that_fail_without_a_next_provider_fail_the_run(broken: str) -> None:
    made = session(CHAIN, Frail(broken, named("b", "c")), CpuStandIn())
    with pytest.raises(RuntimeException, match="OSError: cable cut"):
        made.run(None, {"x": X})


def test_memory_that_cannot_be_allocated_sends_the_nodes_to_the_next() -> None:
    class Full:
        device = Device("box")

        def allocate(self, nbytes: int) -> Any:
            raise MemoryError(f"{nbytes} bytes")

        def free(self, handle: Any) -> None:
            raise AssertionError("nothing was allocated")

    class Copying(Cable):
        def copy_into(self, value: Any, source: Device, destination: Device, memory: Any) -> Any:
            raise AssertionError("there is no memory")

    class Small(Frail):
        def allocator(self) -> Any:
            return Full()

        def data_transfer(self) -> DataTransfer:
            return Copying(self)

    made = session(CHAIN, Small("", named("b", "c")), CpuStandIn(), provider_options=[{"on_run_error": "next"}, {}])
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.maximum(np.tanh(-np.abs(X)), 0))
    said = str(made.explain())
    assert "BoxExecutionProvider_0 failed in a run: " in said and "MemoryError: 12 bytes" in said


def test_a_provider_of_the_same_device_that_has_no_next_says_what_did_not_arrive() -> None:
    class Other(Frail):
        name: ClassVar[str] = "OtherExecutionProvider"

    first, second = Frail("in", named("b")), Other("", named("c"))
    made = session(CHAIN, first, second, CpuStandIn(), provider_options=[{"on_run_error": "next"}, {}, {}])
    with pytest.raises(RuntimeException, match=r"an input did not come to the device: .*OSError: cable cut"):
        made.run(None, {"x": X})


def test_where_nobody_else_can_run_the_nodes_the_failure_is_told() -> None:
    made = session(CHAIN, Weak(faulty="c"), CpuStandIn(named("a")), provider_options=[{"on_run_error": "next"}, {}])
    message = r"(?s)failed in a run: ZeroDivisionError: device lost; and nobody else runs its nodes: no provider of CPUExec"
    with pytest.raises(RuntimeException, match=message) as caught:
        made.run(None, {"x": X})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# The default provider, ruled out


BODY = """(float[3] x, bool f) => (float[3] y) {
    a = Abs(x)
    y = If (f) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = n () => (float[3] e) { e = Relu(a) }>
}"""
NO_CPU = {"session.disable_cpu_ep_fallback": "1"}


def test_nodes_on_the_cpu_are_named_bodies_included(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "provider", lambda name: CpuStandIn)
    with pytest.raises(
        Fail, match=r"(?s)would run a node:\n  Neg 'Neg_0': NumpyExecutionProvider declined choice: not wanted$"
    ):
        session(BODY, NumpyProvider(named("a", "y", "e")), config=NO_CPU)


def test_where_everything_is_elsewhere_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "provider", lambda name: CpuStandIn)
    made = session(CHAIN, NumpyProvider(), config=NO_CPU)
    assert set(owners(made).values()) == {"Numpy"}


def test_listing_the_cpu_beside_it_contradicts_it() -> None:
    with pytest.raises(
        InvalidArgument, match=r"CPUExecutionProvider is listed although session\.disable_cpu_ep_fallback is set"
    ):
        session(CHAIN, NumpyProvider(), CpuStandIn(), config=NO_CPU)


# Budgets


@pytest.mark.parametrize(
    ("options", "taken"),
    [({"limit_nodes": 2}, "ab"), ({"limit_bytes": 36}, "abc"), ({"limit_nodes": 0}, ""), ({"limit_bytes": 1000}, "abcy")],
    ids=str,
)
def test_nodes_over_budget_are_lost_with_the_reason(options: dict[str, int], taken: str) -> None:
    made = session(CHAIN, NumpyProvider(), CpuStandIn(), provider_options=[options, {}])
    assert {name for name, owner in owners(made).items() if owner == "Numpy"} == set(taken)
    codes = {v["NumpyExecutionProvider"].code for v in made.explain().verdicts().values()}
    assert codes <= {"", "budget"}


def test_a_constant_counts_once_and_a_lost_group_gives_its_bytes_back() -> None:
    from ort_lite.provider import Resource

    class Roomy(NumpyProvider):
        def available_resource(self) -> Resource:
            return Resource(nbytes=36)

    text = "(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { a = Add(x, w)  b = Tanh(a)  y = Add(b, w) }"
    least = {"a": 2, "y": 1}
    group = Roomy(named("a", "y"), group=lambda node: Capability([node], minimum=least[node.output.name]))
    assert owners(session(text, group, CpuStandIn())) == {"a": "CPU", "b": "CPU", "y": "Numpy"}
    assert owners(session(text, Roomy(named("a", "y")), CpuStandIn())) == {"a": "Numpy", "b": "CPU", "y": "Numpy"}
