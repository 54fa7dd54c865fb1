"""Compiled partitions are saved in a model and come back without compiling."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.errors import CompileError, InvalidGraph, ModelRequiresCompilation, ProviderError, RuntimeException
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite.load import save
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.provider.kernels import KernelProvider, KernelRegistry
from tests.provider.numpy_provider import FUNCTIONS, CpuStandIn, NumpyProvider

X = np.array([1, -2, 3], np.float32)
TEXT = """(float[3] x, bool f) => (float[3] y, float[3] b) <float[3] w = {1, 2, 3}> {
    a = Add(x, w)
    b = Neg(a)
    c = If (f) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = n () => (float[3] e) { e = Relu(a) }>
    y = Add(c, w)
}"""


class Listing:
    """A compiled partition of binary bytes: lists of operators with the positions of their operands."""

    def __init__(self, data: bytes) -> None:
        assert data[:2] == b"\xff\x00", "not text"
        self.data = data
        plan = json.loads(data[2:])
        self.constants, self.steps, self.outputs = plan["constants"], plan["steps"], plan["outputs"]
        self.absorbed: Sequence[Any] = ()

    @classmethod
    def of(cls, partition: Partition) -> "Listing":
        order = [*partition.inputs, *partition.constants]
        constants = [np.array(v.constant).tolist() for v in partition.constants]
        steps = []
        for node in partition.nodes:
            steps.append([node.op_type, [order.index(value) for value in node.inputs if value is not None]])
            order.append(node.output)
        plan = {"constants": constants, "steps": steps, "outputs": [order.index(value) for value in partition.outputs]}
        made = cls(b"\xff\x00" + json.dumps(plan).encode())
        made.absorbed = partition.constants
        return made

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = [*inputs, *(np.array(c, np.float32) for c in self.constants)]
        for operator, operands in self.steps:
            values.append(np.asarray(FUNCTIONS[operator](*(values[k] for k in operands))))
        return [values[k] for k in self.outputs]


class Saving(NumpyProvider):
    name: ClassVar[str] = "SavingExecutionProvider"
    version = "driver 7"

    def __init__(self, takes: Callable[[Node], bool] = lambda node: node.op_type not in ("If", "Relu")) -> None:
        super().__init__(takes)

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        self.compiled.append(list(partitions))
        return [Listing.of(p) for p in partitions]

    def serialize(self, compiled: Any) -> bytes:
        data: bytes = compiled.data
        return data

    def deserialize(self, partition: Partition, data: bytes) -> CompiledPartition:
        return Listing(data)

    def compatibility(self) -> str:
        return self.version


def model(text: str = TEXT) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made = session(model(), Saving(), CpuStandIn())
    made.save_compiled(tmp_path / "compiled.onnx")
    return tmp_path / "compiled.onnx"


def session(source: Any, *providers: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(source, providers=list(providers))


@pytest.mark.parametrize("flag", [True, False])
def test_a_saved_session_runs_without_compiling(saved: Path, flag: bool) -> None:
    provider = Saving()
    made = session(saved, provider, CpuStandIn())
    assert provider.compiled == []
    y, b = made.run(None, {"x": X, "f": np.array(flag)})
    a = X + np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(b, -a)
    np.testing.assert_array_equal(y, (-a if flag else np.maximum(a, 0)) + np.array([1, 2, 3]))


def test_the_model_holds_onnxruntimes_nodes(saved: Path) -> None:
    proto = onnx.load(saved)
    contexts = [node for node in proto.graph.node if node.op_type == "EPContext"]
    assert [(node.domain, list(node.output)) for node in contexts] == [("com.microsoft", ["b", "a"]), ("com.microsoft", ["y"])]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in contexts[0].attribute}
    assert attributes["ep_cache_context"].startswith(b"\xff\x00")
    assert {name: attributes[name] for name in ("main_context", "embed_mode", "source", "partition_name")} == {
        "main_context": 1,
        "embed_mode": 1,
        "source": b"SavingExecutionProvider",
        "partition_name": b"SavingExecutionProvider_0",
    }
    assert {p.key: p.value for p in proto.metadata_props} == {"ep_compatibility_info.SavingExecutionProvider": "driver 7"}
    assert not proto.graph.initializer, "what was compiled in is not saved again"


def test_what_was_compiled_for_something_else_is_refused(saved: Path) -> None:
    class Updated(Saving):
        version = "driver 8"

    with pytest.raises(
        CompileError, match=r"(?s)it was compiled for 'driver 7'; this is 'driver 8'; compile the original model"
    ):
        session(saved, Updated(), CpuStandIn())


def test_without_its_provider_the_node_says_whom_it_needs(saved: Path) -> None:
    with pytest.raises(NotSupported, match="declined source: it was compiled by SavingExecutionProvider"):
        session(saved, CpuStandIn())


def test_a_strict_session_of_what_is_saved_needs_its_provider(saved: Path) -> None:
    strict = ort_lite.InferenceSession(saved, providers=[Saving(), CpuStandIn()], strict=True)
    assert "SavingExecutionProvider" in {place.provider for place in strict.explain().assignment.placements.values()}
    with pytest.raises(ProviderError, match="SavingExecutionProvider is required and not installed"):
        ort_lite.InferenceSession(saved, providers=["SavingExecutionProvider", CpuStandIn()], strict=True)


def test_providers_that_save_nothing_leave_nothing_to_save(tmp_path: Path) -> None:
    made = session(model(), CpuStandIn())
    with pytest.raises(ProviderError, match="none of CPUExecutionProvider saves what it compiled"):
        made.save_compiled(tmp_path / "compiled.onnx")
    made.close()
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.save_compiled(tmp_path / "compiled.onnx")


# Sessions that compile nothing


def compiling_nothing(source: Any, *providers: Any) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("session.disable_model_compile", "1")
    return ort_lite.InferenceSession(source, options, providers=list(providers))


def test_a_session_that_may_not_compile_takes_what_is_compiled(saved: Path) -> None:
    made = compiling_nothing(saved, Saving(), CpuStandIn())
    np.testing.assert_array_equal(made.run(["b"], {"x": X, "f": np.array(True)})[0], -(X + np.array([1, 2, 3])))


def test_a_session_that_may_not_compile_names_what_would_have_to_be() -> None:
    source, provider = model(), Saving()
    with pytest.raises(
        ModelRequiresCompilation, match=r"(?s)disable_model_compile is set, .*  SavingExecutionProvider_0: Add 'Add"
    ):
        compiling_nothing(source, provider, CpuStandIn())
    assert provider.compiled == []


def test_the_default_provider_and_kernels_are_not_what_is_meant_by_compiling() -> None:
    class Kernels(KernelProvider):
        name: ClassVar[str] = "KernelsExecutionProvider"
        kernels = KernelRegistry()

    Kernels.kernels.add("Neg", np.negative)
    source = model()
    made = compiling_nothing(source, Kernels(), CpuStandIn())
    assert "KernelsExecutionProvider" in str(made.explain())


# Files beside the model


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    (tmp_path / "apart").mkdir()
    made = session(model(), Saving(), CpuStandIn())
    made.save_compiled(tmp_path / "apart" / "model.onnx", embed=False)
    return tmp_path / "apart" / "model.onnx"


def test_without_the_models_path_they_are_not_found(apart: Path) -> None:
    with pytest.raises(CompileError, match="its context is in a file beside the model; load the model by its path"):
        session(apart.read_bytes(), Saving(), CpuStandIn())


def test_files_elsewhere_are_not_read(apart: Path) -> None:
    (apart.parent.parent / "secret.bin").write_bytes(b"\xff\x00{}")
    proto = onnx.load(apart, load_external_data=False)
    for attribute in proto.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = b"../secret.bin"
    onnx.save(proto, apart)
    with pytest.raises(InvalidGraph, match=r"'\.\./secret\.bin' is outside of the model's folder"):
        session(apart, Saving(), CpuStandIn())


@pytest.mark.parametrize("data", [b"\xff", b"", b"\xff\x00{}" * 100], ids=["cut short", "empty", "another"])
def test_a_file_that_is_not_the_one_that_was_saved_is_named(apart: Path, data: bytes) -> None:
    (apart.parent / "model_SavingExecutionProvider_1.bin").write_bytes(data)
    message = rf"\(SavingExecutionProvider\): the file 'model_SavingExecutionProvider_1\.bin' has {len(data)} bytes"
    with pytest.raises(InvalidGraph, match=message):
        session(apart, Saving(), CpuStandIn())


# Bodies


BOTH = """(float[3] x, bool f) => (float[3] y) {
    a = Abs(x)
    c = If (f) <then_branch = p () => (float[3] t) { u = Neg(a) t = Tanh(u) }, else_branch = n () => (float[3] e) { e = Abs(x) }>
    y = Neg(c)
}"""


class Everything(Saving):
    """Takes control flow too, and would serialise it: the bytes know nothing of the bodies."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        made = NumpyProvider.compile(self, partitions)
        return [one if p.bodies else Listing.of(p) for p, one in zip(partitions, made, strict=True)]

    def serialize(self, compiled: Any) -> bytes:
        data: bytes = getattr(compiled, "data", b"\xff\x00nothing that runs")
        return data


@pytest.mark.parametrize("flag", [True, False])
def test_an_if_stays_and_the_partitions_of_its_bodies_are_saved(tmp_path: Path, flag: bool) -> None:
    made = session(model(BOTH), Everything(lambda node: True), CpuStandIn())
    feed = {"x": X, "f": np.array(flag)}
    expected = made.run(None, feed)[0]
    made.save_compiled(tmp_path / "both.onnx")
    inside = [
        node.op_type for node in ort_lite.load(tmp_path / "both.onnx").graph.all_nodes() if node.domain == "com.microsoft"
    ]
    assert inside == ["EPContext", "EPContext"]
    loaded = session(tmp_path / "both.onnx", Everything(lambda node: True), CpuStandIn())
    np.testing.assert_array_equal(loaded.run(None, feed)[0], expected)


# Transforms around a context


AROUND = """(float[3] x, float[3] z) => (float[3] y, float[3] b, float[3] w) {
    p = Relu(x)
    q = Relu(z)
    a = Sub(p, q)
    b = Neg(a)
    c = Abs(q)
    y = Relu(a)
    w = Relu(c)
}"""


def rewired(path: Path, change: Callable[[onnx.GraphProto], None]) -> onnx.ModelProto:
    proto = onnx.load(path)
    change(proto.graph)
    return proto


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """One context with the inputs p and q and the outputs b, a and c."""
    source = model(AROUND)
    session(source, Saving(), CpuStandIn()).save_compiled(tmp_path / "around.onnx")
    (node,) = [node for node in onnx.load(tmp_path / "around.onnx").graph.node if node.op_type == "EPContext"]
    assert (list(node.input), list(node.output)) == (["p", "q"], ["b", "a", "c"])
    return tmp_path / "around.onnx"


def test_an_input_of_a_context_may_be_folded(around: Path) -> None:
    def fold(graph: onnx.GraphProto) -> None:
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([3, 4, -5], np.float32), "k"))
        next(node for node in graph.node if list(node.output) == ["p"]).input[0] = "k"

    made = session(rewired(around, fold), Saving(), CpuStandIn())
    z = np.array([1, 1, 1], np.float32)
    (y, b) = made.run(["y", "b"], {"x": X, "z": z})
    np.testing.assert_array_equal(y, [2, 3, 0])
    np.testing.assert_array_equal(b, [-2, -3, 1])


def test_two_inputs_of_a_context_may_become_one(around: Path) -> None:
    def join(graph: onnx.GraphProto) -> None:
        next(node for node in graph.node if list(node.output) == ["q"]).input[0] = "x"

    made = session(rewired(around, join), Saving(), CpuStandIn())
    y, b, w = made.run(None, {"x": X, "z": X})
    np.testing.assert_array_equal(y, np.zeros(3))
    np.testing.assert_array_equal(b, np.zeros(3))
    np.testing.assert_array_equal(w, np.maximum(X, 0))


def test_an_output_of_a_context_may_lose_its_readers_and_the_model_be_saved_again(around: Path, tmp_path: Path) -> None:
    def drop(graph: onnx.GraphProto) -> None:
        del graph.output[0]
        graph.node.remove(next(node for node in graph.node if list(node.output) == ["y"]))

    made = session(rewired(around, drop), Saving(), CpuStandIn())
    feed = {"x": X, "z": -X}
    for embed in (True, False):
        made.save_compiled(tmp_path / "again.onnx", embed)
        for one in (made, session(tmp_path / "again.onnx", Saving(), CpuStandIn())):
            b, w = one.run(None, feed)
            np.testing.assert_array_equal(b, -X)
            np.testing.assert_array_equal(w, np.maximum(-X, 0))


# Two instances of one provider


class Card(Saving):
    """Its partitions run on the card with this number alone."""

    name: ClassVar[str] = "CardExecutionProvider"

    def __init__(self, operator: str) -> None:
        super().__init__(lambda node: node.op_type == operator)
        self.operator = operator

    def compatibility(self) -> str:
        return "cards"

    def deserialize(self, partition: Partition, data: bytes) -> CompiledPartition:
        assert self.operator in data.decode("latin1"), f"the context of another card came to that for {self.operator}"
        return Listing(data)


def test_each_instance_gets_its_own_contexts(tmp_path: Path) -> None:
    text = "(float[3] x) => (float[3] y) { a = Abs(x)  b = Tanh(a)  y = Neg(b) }"
    source = model(text)
    made = session(source, Card("Abs"), Card("Neg"), CpuStandIn())
    made.save_compiled(tmp_path / "cards.onnx")
    loaded = session(tmp_path / "cards.onnx", Card("Abs"), Card("Neg"), CpuStandIn())
    np.testing.assert_array_equal(loaded.run(None, {"x": X})[0], made.run(None, {"x": X})[0])
    assert [row["provider"] for row in loaded.explain().as_dict()["nodes"]] == [
        "CardExecutionProvider",
        "CPUExecutionProvider",
        "CardExecutionProvider#2",
    ]
    with pytest.raises(NotSupported, match="it was compiled by CardExecutionProvider#2: instance 2, which is not here"):
        session(tmp_path / "cards.onnx", Card("Abs"), CpuStandIn())


# Providers that fail to save


@pytest.mark.parametrize(
    ("hook", "answer", "message"),
    [
        ("serialize", OSError("bus"), "serialize failed: OSError: bus"),
        ("serialize", "text", "serialize returned 'text'; expected bytes, or None"),
        ("compatibility", 7, "compatibility returned 7; expected a text"),
    ],
)
@pytest.mark.parametrize("embed", [True, False])
def test_a_provider_that_fails_to_save_is_named_and_no_file_is_left(
    tmp_path: Path, hook: str, answer: Any, message: str, embed: bool
) -> None:
    made = session(model(), Saving(), CpuStandIn())

    def given(*arguments: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    setattr(made._stage_results.assignment.partitions[0].provider, hook, given)
    with pytest.raises(ProviderError, match=f"^SavingExecutionProvider: {message}"):
        made.save_compiled(tmp_path / "compiled.onnx", embed)
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_the_files_of_the_one_before(apart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in apart.parent.iterdir()}
    made = session(apart, Saving(), CpuStandIn())

    def full(*arguments: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(save, "serialize", full)
    with pytest.raises(OSError, match="no space left"):
        made.save_compiled(apart, embed=False)
    assert {path.name: path.read_bytes() for path in apart.parent.iterdir()} == before


@pytest.mark.parametrize("answer", [3, ValueError("not mine")])
def test_a_provider_that_does_not_take_back_what_it_saved_is_named(saved: Path, answer: Any) -> None:
    class Forgetful(Saving):
        def deserialize(self, partition: Partition, data: bytes) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    with pytest.raises(ProviderError, match=r"SavingExecutionProvider: deserialize (returned 3|failed: ValueError: not mine)"):
        session(saved, Forgetful(), CpuStandIn())


# Saved when the session is made


def creating(source: Any, *providers: Any, **config: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    for key, value in config.items():
        options.add_session_config_entry(f"ep.context_{key}", value)
    return ort_lite.InferenceSession(source, options, providers=list(providers))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    onnx.save(model(), tmp_path / "plain.onnx")
    return tmp_path / "plain.onnx"


@pytest.mark.parametrize(
    ("embed", "files"), [("1", ["x.onnx"]), ("0", ["x.onnx", *(f"x_SavingExecutionProvider_{k}.bin" for k in range(3))])]
)
def test_the_config_saves_when_the_session_is_made(plain: Path, embed: str, files: list[str]) -> None:
    path = plain.parent / "x.onnx"
    creating(plain, Saving(), CpuStandIn(), enable="1", file_path=str(path), embed_mode=embed)
    assert sorted(found.name for found in plain.parent.iterdir()) == sorted([plain.name, *files])
    provider = Saving()
    made = session(path, provider, CpuStandIn())
    assert provider.compiled == []
    np.testing.assert_array_equal(made.run(["b"], {"x": X, "f": np.array(True)})[0], -(X + np.array([1, 2, 3])))


def test_by_default_it_is_saved_beside_the_model(plain: Path) -> None:
    creating(plain, Saving(), CpuStandIn(), enable="1")
    assert (plain.parent / "plain_ctx.onnx").exists()
    creating(plain, Saving(), CpuStandIn(), enable="0", file_path=str(plain.parent / "no.onnx"))
    assert not (plain.parent / "no.onnx").exists()


def test_where_to_save_must_be_known_and_another_file(plain: Path) -> None:
    with pytest.raises(
        ort_lite.errors.InvalidArgument, match=r"ep\.context_file_path is not set, and the model comes from no file"
    ):
        creating(plain.read_bytes(), Saving(), CpuStandIn(), enable="1")
    with pytest.raises(ort_lite.errors.InvalidArgument, match=r"ep\.context_file_path is the model's own file"):
        creating(plain, Saving(), CpuStandIn(), enable="1", file_path=str(plain))


def test_where_nobody_saves_anything_the_session_is_made_with_a_warning(plain: Path, caplog: pytest.LogCaptureFixture) -> None:
    creating(plain, CpuStandIn(), enable="1")
    assert [path.name for path in plain.parent.iterdir()] == [plain.name]
    (message,) = caplog.messages
    assert message.startswith("ep.context_enable: none of CPUExecutionProvider saves what it compiled")
