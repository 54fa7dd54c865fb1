"""Inputs and outputs of partitions that are NumPy arrays although their provider has a device (`host_values`)."""

import json
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import ProviderError
from ort_lite.graph import Value
from ort_lite.provider import Body, CompiledPartition, DataTransfer, Device, Partition
from ort_lite.provider.kernels import KernelProvider
from tests.provider.numpy_provider import Box, BoxTransfer, CpuStandIn, NumpyProvider, OtherDevice, run_node
from tests.provider.texts import named, plain, proto

X = np.array([1, -2, 3], np.float32)


class Shelf(OtherDevice):
    """Its host values are those of `names`. It counts the copies of its transfer, and what its bodies were given and returned."""

    name: ClassVar[str] = "ShelfExecutionProvider"

    def __init__(self, *names: str, takes: Any = lambda node: True, fault: str = "") -> None:
        super().__init__(takes)
        self.names, self.fault = names, fault
        self.moved: list[str] = []
        self.bodies: list[str] = []
        self.asked_about: list[str] = []

    def host_values(self, partition: Partition) -> Collection[Value]:
        assert not partition.bodies
        self.asked_about.append(partition.name)
        return [value for value in (*partition.inputs, *partition.outputs) if value.name in self.names]

    def data_transfer(self) -> DataTransfer:
        return Counting(self)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [partial(self._run, partition) for partition in partitions]

    def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
        values: dict[Value, Any] = {
            value: self.open(x, value not in partition.host_values) for value, x in zip(partition.inputs, inputs, strict=True)
        }
        bodies = {graph: _Caller(self, body) for graph, body in partition.bodies.items()}
        for node in partition.nodes:
            run_node(node, values, bodies)
            if node.output.name == self.fault:
                raise ValueError("the shelf fell down")
        return [values[v] if v in partition.host_values else Box(self.device, values[v]) for v in partition.outputs]

    def open(self, x: Any, on_device: bool) -> Any:
        assert isinstance(x, Box) == on_device
        return x.open(self.device) if on_device else x


class _Caller:
    """A body for `run_node`, which computes with arrays."""

    def __init__(self, shelf: Shelf, body: Body) -> None:
        self.shelf, self.body = shelf, body
        self.captures, self.device, self.steps = body.captures, body.device, body.steps
        self.host_inputs, self.host_outputs, self.result_slots = body.host_inputs, body.host_outputs, body.result_slots

    def __call__(self, inputs: Sequence[Any], captures: Sequence[Any]) -> list[Any]:
        shelf, body = self.shelf, self.body
        shelf.bodies.append(str(body.device))
        given = [x if k in body.host_inputs else Box(shelf.device, x) for k, x in enumerate((*inputs, *captures))]
        found = body(given[: len(inputs)], given[len(inputs) :])
        return [shelf.open(y, k not in body.host_outputs) for k, y in enumerate(found)]


class Counting(BoxTransfer):
    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf.device)
        self.shelf = shelf

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        self.shelf.moved.append(f"{source} -> {destination}")
        return super().copy(value, source, destination)


def make(text: str, *providers: Any, options: Any = None) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), plain(), providers=[*providers, CpuStandIn()], provider_options=options)


CHAIN = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Tanh(b) }"


def notes(session: ort_lite.InferenceSession) -> list[str]:
    return [note for note in session.explain().assignment.notes() if note.startswith(("copy", "in "))]


def test_no_copy_is_made_for_host_values() -> None:
    shelf = Shelf("x", "b", takes=named("a", "b"))
    session = make(CHAIN, shelf)
    assert (notes(session), shelf.asked_about) == ([], ["ShelfExecutionProvider_0"])
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.tanh(-np.abs(X)))
    assert shelf.moved == []


def test_a_device_reads_a_host_value_of_another_partition_by_a_copy() -> None:
    shelf = Shelf("a", takes=named("a", "y"))
    session = make(CHAIN, shelf)
    assert notes(session) == [
        "copy 'x' cpu:0 -> box:0 for ShelfExecutionProvider_0",
        "copy 'b' cpu:0 -> box:0 for ShelfExecutionProvider_1",
        "copy 'y' box:0 -> cpu:0 for output",
    ]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.tanh(-np.abs(X)))


def test_a_value_may_be_read_on_both_sides() -> None:
    shelf = Shelf("a", takes=named("a", "y"))
    session = make("(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Add(a, b) }", shelf)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.zeros(3))
    assert shelf.moved == ["cpu:0 -> box:0"] * 2 + ["box:0 -> cpu:0"]


def test_a_provider_of_version_1_0_is_not_asked() -> None:
    class Old(Shelf):
        api_version = "1.0"

    shelf = Old("x", "y")
    session = make(CHAIN, shelf)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.tanh(-np.abs(X)))
    assert (shelf.moved, shelf.asked_about) == (["cpu:0 -> box:0", "box:0 -> cpu:0"], [])


def test_a_provider_without_a_device_is_not_asked() -> None:
    class Here(NumpyProvider):
        def host_values(self, partition: Partition) -> Collection[Value]:
            raise AssertionError

    np.testing.assert_array_equal(make(CHAIN, Here()).run(None, {"x": X})[0], np.tanh(-np.abs(X)))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda p: [p.nodes[0].outputs[0]], "host_values returned 'a', which is neither an input nor an output of Shelf.*_0"),
        (lambda p: ["x"], r"host_values returned \['x'\]; expected inputs and outputs of the partition"),
        (lambda p: 1 / 0, "host_values failed: ZeroDivisionError"),
    ],
)
def test_what_is_no_host_value_is_refused(answer: Any, message: str) -> None:
    class Wrong(Shelf):
        def host_values(self, partition: Partition) -> Collection[Value]:
            found: Collection[Value] = answer(partition)
            return found

    with pytest.raises(ProviderError, match=f"^ShelfExecutionProvider: {message}"):
        make(CHAIN, Wrong())


# Guards


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y.astype(np.float64), r"float64\[3\] for 'y'; expected float32\[3\]"),
        (lambda y: y[:2], r"float32\[2\] for 'y'; expected float32\[3\]"),
        (lambda y: Box(Shelf.device, y), "a?.*Box for 'y'; expected float32"),
        (lambda y: None, "None for 'y'"),
    ],
)
def test_a_host_output_is_checked_as_on_the_cpu(change: Any, message: str) -> None:
    class Careless(Shelf):
        def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            return [change(y) for y in super()._run(partition, inputs)]

    with pytest.raises(ProviderError, match=rf"^ShelfExecutionProvider_0 \(ShelfExecutionProvider\) returned {message}"):
        make(CHAIN, Careless("y")).run(None, {"x": X})


def test_a_size_of_a_host_output_is_that_of_the_feed() -> None:
    class Short(Shelf):
        def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            return [y[:1] for y in super()._run(partition, inputs)]

    text = "(float[N] x) => (float[N] y) { y = Abs(x) }"
    with pytest.raises(ProviderError, match=r"float32\[1\] for 'y'; expected float32\[N\]: dimension 0 is 1, and N is 3"):
        make(text, Short("y")).run(None, {"x": X})


def test_a_host_input_is_read_only_and_returned_ones_are_copied() -> None:
    class Handing(Shelf):
        def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            assert not inputs[0].flags.writeable
            return [inputs[0]]

    y = make("(float[3] x) => (float[3] y) { y = Identity(x) }", Handing("x", "y")).run(None, {"x": X})[0]
    assert y.flags.writeable and not np.shares_memory(y, X)


# Other ways to run


@pytest.mark.parametrize("host", [("x", "y"), ("x",), ("y",), ()])
def test_bound_values_are_copied_to_where_they_are_read(host: Sequence[str]) -> None:
    shelf = Shelf(*host)
    session = make(CHAIN, shelf)
    infos = (*session.get_input_memory_infos(), *session.get_output_memory_infos())
    assert [info.name.lower() for info in infos] == ["cpu" if name in host else "box" for name in ("x", "y")]
    ort_lite.register_provider(shelf.name, Shelf)
    try:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort_lite.OrtValue.ortvalue_from_numpy(X, "box", 0))
        shelf.moved.clear()  # the session's provider has made that value
        binding.bind_output("y", "box", 0)
        session.run_with_iobinding(binding)
    finally:
        ort_lite.unregister_provider(shelf.name)
    moved, (y,) = list(shelf.moved), binding.get_outputs()
    assert y.device_name() == "box"
    np.testing.assert_array_equal(y.numpy(), np.tanh(-np.abs(X)))
    assert sorted(moved) == ["box:0 -> cpu:0"] * ("x" in host) + ["cpu:0 -> box:0"] * ("y" in host)


def test_partitions_in_parallel() -> None:
    options = plain()
    options.execution_mode = ort_lite.ExecutionMode.ORT_PARALLEL
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(x)  c = Tanh(a)  d = Tanh(b)  y = Add(c, d) }"
    providers = [Shelf("a", "c", "x", takes=lambda node: node.op_type != "Tanh"), CpuStandIn()]
    session = ort_lite.InferenceSession(proto(text), options, providers=providers)
    np.testing.assert_allclose(session.run(None, {"x": X})[0], np.tanh(np.abs(X)) + np.tanh(-X))


@pytest.mark.parametrize("host", [("x", "b"), ("x",), ("b",), ()])
def test_the_next_provider_gets_and_returns_host_values(host: Sequence[str]) -> None:
    shelf = Shelf(*host, takes=named("a", "b"), fault="b")
    session = make(CHAIN, shelf, options=[{"on_run_error": "next"}, {}])
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.tanh(-np.abs(X)))


def test_the_next_provider_makes_what_another_partition_reads_on_the_device() -> None:
    shelf = Shelf("a", takes=named("a", "y"), fault="a")
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Add(a, b) }"
    session = make(text, shelf, options=[{"on_run_error": "next"}, {}])
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.zeros(3))


def test_verification_compares_host_values() -> None:
    class Wrong(Shelf):
        def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            results = super()._run(partition, inputs)
            return [y + 1 if partition.nodes[-1].op_type == "Neg" and not isinstance(y, Box) else y for y in results]

    model, feeds = proto(CHAIN), {"x": X}
    session = ort_lite.InferenceSession(
        model, plain(), providers=[Shelf("x", "b", takes=named("a", "b")), "CPUExecutionProvider"]
    )
    session.run(None, feeds, verify="partition")
    wrong = Wrong("x", "b", takes=named("a", "b"))
    session = ort_lite.InferenceSession(model, plain(), providers=[wrong, "CPUExecutionProvider"])
    with pytest.raises(ort_lite.errors.VerificationError, match="'b'"):
        session.run(None, feeds, verify="partition")


# Bodies

LOOP = """(int64 n, float[3] x, float[3] w) => (float[3] y) <bool t = {1}> {
    v = Abs(w)
    y = Loop (n, t, x) <body = turn (int64 i, bool go_on, float[3] s) => (bool stay, float[3] r) {
        stay = Identity(go_on)
        u = Add(s, v)
        r = Mul(u, w)
    }>
}"""


def expected(n: int, x: Any, w: Any) -> Any:
    for _ in range(n):
        x = (x + np.abs(w)) * w
    return x


@pytest.mark.parametrize("host", [(), ("n",), ("n", "go_on", "stay"), ("n", "w")])
def test_a_loop_keeps_its_values_on_the_device_between_turns(host: Sequence[str]) -> None:
    shelf = Shelf(*host)
    session = make(LOOP, shelf)
    feeds = {"n": np.array(4), "x": X, "w": X + 1}
    np.testing.assert_allclose(session.run(None, feeds)[0], expected(4, X, X + 1), rtol=1e-6)
    assert shelf.bodies == ["box:0"] * 4
    assert shelf.moved == ["cpu:0 -> box:0"] * (3 - len({"n", "w"} & set(host))) + ["box:0 -> cpu:0"]


def test_a_body_with_a_node_of_another_provider_is_on_the_cpu() -> None:
    shelf = Shelf(takes=lambda node: node.op_type != "Mul")
    session = make(LOOP, shelf)
    feeds = {"n": np.array(2), "x": X, "w": X + 1}
    np.testing.assert_allclose(session.run(None, feeds)[0], expected(2, X, X + 1), rtol=1e-6)
    assert shelf.bodies == ["cpu:0"] * 2


def test_a_body_whose_provider_has_a_next_one_is_on_the_cpu() -> None:
    shelf = Shelf(fault="u")
    session = make(LOOP, shelf, options=[{"on_run_error": "next"}, {}])
    feeds = {"n": np.array(2), "x": X, "w": X + 1}
    np.testing.assert_allclose(session.run(None, feeds)[0], expected(2, X, X + 1), rtol=1e-6)
    assert shelf.bodies == ["cpu:0"] * 2


def test_bodies_of_a_provider_of_version_1_0_are_on_the_cpu() -> None:
    class Old(Shelf):
        api_version = "1.0"

    shelf = Old()
    feeds = {"n": np.array(2), "x": X, "w": X + 1}
    np.testing.assert_allclose(make(LOOP, shelf).run(None, feeds)[0], expected(2, X, X + 1), rtol=1e-6)
    assert shelf.bodies == ["cpu:0"] * 2


def test_bodies_of_a_kernel_provider_that_compiles_by_itself_are_on_the_cpu() -> None:
    class Inheriting(Shelf):
        host_values = KernelProvider.host_values

    shelf = Inheriting()
    feeds = {"n": np.array(2), "x": X, "w": X + 1}
    np.testing.assert_allclose(make(LOOP, shelf).run(None, feeds)[0], expected(2, X, X + 1), rtol=1e-6)
    assert shelf.bodies == ["cpu:0"] * 2


BRANCHES = """(bool f, float[3] x) => (float[3] y, float[3] z) <float[3] c = {7, 8, 9}> {
    a = Abs(x)
    y, z = If (f) <
        then_branch = yes () => (float[3] p, float[3] q) { p = Add(a, x)  q = Neg(p) },
        else_branch = no () => (float[3] d, float[3] e) { d = Identity(c)  e = Identity(a) }
    >
}"""


@pytest.mark.parametrize("host", [(), ("f",), ("f", "x"), ("f", "q"), ("f", "x", "p", "q"), ("y", "p"), ("y", "z")])
@pytest.mark.parametrize("f", [True, False])
def test_branches_return_captures_and_constants(host: Sequence[str], f: bool) -> None:
    text = BRANCHES.replace(
        "(float[3] d, float[3] e) { d = Identity(c)  e = Identity(a) }",
        "(float[3] d, float[3] e) { d = Identity(c)  e = Identity(a) }",
    )
    shelf = Shelf(*host)
    y, z = make(text, shelf).run(None, {"f": np.array(f), "x": X})
    a = np.abs(X)
    np.testing.assert_array_equal(y, a + X if f else [7, 8, 9])
    np.testing.assert_array_equal(z, -(a + X) if f else a)
    assert shelf.bodies == ["box:0"]


def test_a_body_checks_what_is_on_the_host() -> None:
    class Wrong(Shelf):
        def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            body = next(iter(partition.bodies.values()), None)
            return super()._run(partition, inputs) if body is None else body([inputs[0], np.float32(1), inputs[1]], [None])

    with pytest.raises(ProviderError, match=r"called its body 'turn' with float32\[\] for 'go_on'; expected bool"):
        make(LOOP, Wrong("n", "go_on")).run(None, {"n": np.array(2), "x": X, "w": X})


PASSING = """(int64 n, float[3] x, bool go) => (float[3] y, float[3] z) <bool t = {1}> {
    a = Abs(x)
    y, z = Loop (n, go, x, a) <body = turn (int64 i, bool go_on, float[3] s, float[3] kept) => (bool go_on, float[3] r, float[3] kept) {
        r = Add(s, kept)
    }>
}"""


@pytest.mark.parametrize("host", [(), ("n", "go"), ("x", "s"), ("a", "kept"), ("y", "r")])
def test_a_body_may_hand_on_what_it_is_given(host: Sequence[str]) -> None:
    shelf = Shelf(*host)
    y, z = make(PASSING, shelf).run(None, {"n": np.array(3), "x": X, "go": np.array(True)})
    np.testing.assert_array_equal(y, X + 3 * np.abs(X))
    np.testing.assert_array_equal(z, np.abs(X))
    assert shelf.bodies == ["box:0"] * 3


def test_a_loop_on_the_device_is_verified_and_profiled(tmp_path: Path) -> None:
    options = plain()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = ort_lite.InferenceSession(proto(LOOP), options, providers=[Shelf("n", "go_on", "stay"), "CPUExecutionProvider"])
    feeds = {"n": np.array(3), "x": X, "w": X + 1}
    y = session.run(None, feeds, verify="partition")[0]
    np.testing.assert_allclose(y, expected(3, X, X + 1), rtol=1e-6)
    steps = [e for e in json.loads(Path(session.end_profiling()).read_text()) if e["cat"] == "Step"]
    assert sum(e["name"].startswith("copy") for e in steps) == 3


def test_a_wrong_node_of_a_body_on_the_device_is_found() -> None:
    class Wrong(Shelf):
        def _run(self, partition: Partition, inputs: Sequence[Any]) -> list[Any]:
            results = super()._run(partition, inputs)
            if any(node.op_type == "Mul" for node in partition.nodes):
                results = [Box(self.device, y.open(self.device) + 1) if isinstance(y, Box) else y for y in results]
            return results

    session = ort_lite.InferenceSession(proto(LOOP), plain(), providers=[Wrong("n", "go_on", "stay"), "CPUExecutionProvider"])
    with pytest.raises(ort_lite.errors.VerificationError, match="Mul"):
        session.run(None, {"n": np.array(2), "x": X, "w": X + 1}, verify="partition")
