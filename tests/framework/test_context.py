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
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.provider.kernels import KernelProvider, KernelRegistry
from tests.framework.numpy_provider import FUNCTIONS, CpuStandIn, NumpyProvider

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


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made = session(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {TEXT}'), Saving(), CpuStandIn())
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


def test_a_loaded_one_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    session(saved, Saving(), CpuStandIn()).save_compiled(tmp_path / "again.onnx")
    made = session(tmp_path / "again.onnx", Saving(), CpuStandIn())
    np.testing.assert_array_equal(made.run(["b"], {"x": X, "f": np.array(True)})[0], -(X + np.array([1, 2, 3])))


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


def test_providers_that_save_nothing_leave_nothing_to_save(tmp_path: Path) -> None:
    made = session(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {TEXT}'), CpuStandIn())
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
    source, provider = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {TEXT}'), Saving()
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
    source = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {TEXT}')
    made = compiling_nothing(source, Kernels(), CpuStandIn())
    assert "KernelsExecutionProvider" in str(made.explain())


# Files beside the model


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    (tmp_path / "apart").mkdir()
    made = session(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {TEXT}'), Saving(), CpuStandIn())
    made.save_compiled(tmp_path / "apart" / "model.onnx", embed=False)
    return tmp_path / "apart" / "model.onnx"


def test_contexts_can_be_in_files_beside_the_model(apart: Path) -> None:
    names = [f"model_SavingExecutionProvider_{k}.bin" for k in range(3)]
    assert sorted(path.name for path in apart.parent.iterdir()) == ["model.onnx", *names]
    assert (apart.parent / names[0]).read_bytes().startswith(b"\xff\x00")
    provider = Saving()
    made = session(apart, provider, CpuStandIn())
    assert provider.compiled == []
    np.testing.assert_array_equal(made.run(["b"], {"x": X, "f": np.array(True)})[0], -(X + np.array([1, 2, 3])))


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
