"""The later part of prepared programs, which no run reads, and the memory that they hold."""

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from weakref import ref

import numpy as np
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from ort_lite.errors import RuntimeException
from ort_lite.graph.graph import Node
from ort_lite_cpu.program.origin import ProgramOrigin
from ort_lite_cpu.program.program import Program
from tests.session.prepared_sessions import equal, feeds, found, model, session, store_in, stored


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return store_in(tmp_path / "programs", monkeypatch)


def _is_set(made: Any, name: str) -> bool:
    """Return True if a field was read. Asking for it would read it: the last one holds what reads the rest."""
    own: Any = getattr(ProgramOrigin, name)
    try:
        return type(own.__get__(made)) is not ref
    except AttributeError:
        return False


def test_runs_read_no_more_than_they_need() -> None:
    session(model())
    made = session(model())
    later = made._state.later
    assert later is not None
    made.run(None, feeds())
    made.run(None, feeds(n=3, h=12))
    assert made._state.prepared is not None
    program: Any = made._state.prepared.compiled.executable.steps[0].function
    assert not any(_is_set(program.origin, name) for name in ("source", "restorers", "spare"))
    kind = type(program.origin)
    nodes = program.source.nodes
    assert all(_is_set(program.origin, name) for name in ("source", "restorers", "spare"))
    assert type(program.origin) is kind.__base__
    assert type(program) is Program  # CPython reads attributes of classes with __getattr__ slowly
    assert [type(node) for node in nodes] == [Node] * len(nodes)
    assert all(node.graph is nodes[0].graph for node in nodes)


def test_sessions_read_their_own_rest() -> None:
    sessions = [session(model()) for _ in range(3)][1:]
    programs: list[Any] = [one._stage_results.compiled.executable.steps[0].function for one in sessions]
    assert type(programs[0].origin) is type(programs[1].origin) is not ProgramOrigin
    nodes = programs[0].source.nodes
    assert type(programs[0].origin) is ProgramOrigin is not type(programs[1].origin)
    assert nodes[0] is not programs[1].source.nodes[0]
    assert [node.op_type for node in nodes] == [node.op_type for node in programs[1].source.nodes]


def test_the_rest_is_gone_with_its_session() -> None:
    session(model())
    made = session(model())
    program: Any = made._stage_results.compiled.executable.steps[0].function
    value = made._stage_results.compiled.executable.inputs[0]
    del made
    gc.collect()
    for name in ("source", "restorers", "spare"):
        with pytest.raises(RuntimeException, match=f"{name} of ProgramOrigin: the session of the prepared program is gone"):
            getattr(program.origin, name)
    for name in ("constant", "uses"):
        with pytest.raises(RuntimeException, match="gone"):
            getattr(value, name)
    assert value.name == "x"


def test_threads_that_ask_at_once_get_the_same() -> None:
    wanted = str(session(model(), prepared="0").explain())
    session(model())
    made, barrier = session(model()), Barrier(8)

    def ask(_: int) -> str:
        barrier.wait(60)
        return str(made.explain())

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {wanted}


def test_a_closed_session_can_still_be_explained() -> None:
    session(model())
    made = session(model())
    wanted = str(session(model(), prepared="0").explain())
    made.close()
    assert str(made.explain()) == wanted


@pytest.mark.parametrize("by_path", [True, False])
def test_it_holds_no_more_memory_than_a_new_session(by_path: bool, tmp_path: Path) -> None:
    made = onnx.parser.parse_model(LARGE)
    for name, shape in (("w", (512, 256, 3, 3)), ("v", (512, 512))):
        made.graph.initializer.append(numpy_helper.from_array(np.random.default_rng(0).random(shape, np.float32), name))
    data: Any = made.SerializeToString()
    if by_path:
        (tmp_path / "model.onnx").write_bytes(data)
        data = tmp_path / "model.onnx"
    assert stored(session(data)) == "yes"
    held = {}
    for prepared in ("0", "1"):
        gc.collect()
        tracemalloc.start()
        last = session(data, prepared=prepared)
        held[prepared] = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found(last) == ("yes" if prepared == "1" else "")
        del last
    assert held["1"][0] < held["0"][0] * 1.02
    assert held["1"][1] < held["0"][1]


def test_sessions_share_arrays_however_they_were_made() -> None:
    """A folded one, a packed one and a tensor of the model."""
    text = """<ir_version: 10, opset_import: ["": 21]> main (float[64, 64] x) => (float[64, 64] y) {
        k = Exp(w) a = Add(x, k) b = Mul(a, v) y = MatMul(b, u)
    }"""
    made, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    for name in "uvw":
        made.graph.initializer.append(numpy_helper.from_array(rng.random((64, 64), np.float32), name))
    sessions = [session(made.SerializeToString()) for _ in range(3)]
    assert [found(each) for each in sessions] == ["no, because there is none", "yes", "yes"]
    arrays = []
    for each in sessions:
        assert each._state.prepared is not None
        program: Any = each._state.prepared.compiled.executable.steps[0].function
        arrays.append({id(array) for step in program.steps for array in step.segment.keep if array.nbytes > 4096})
    assert len(arrays[0]) == 3
    assert arrays[0] == arrays[1] == arrays[2]


LARGE = """<ir_version: 10, opset_import: ["": 21]> main (float[1, 256, 8, 8] x) => (float[1, 512] y) {
    c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w)
    p = GlobalAveragePool(c)
    f = Flatten(p)
    y = MatMul(f, v)
}"""


def test_tables_of_trees_are_stored(folder: Path) -> None:
    """The tables are made of attributes: they are no weights."""
    count, rng = 3000, np.random.default_rng(0)
    ids = np.repeat(np.arange(count), 3)
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        nodes_treeids=ids.tolist(),
        nodes_nodeids=np.tile([0, 1, 2], count).tolist(),
        nodes_featureids=rng.integers(0, 8, 3 * count).tolist(),
        nodes_values=rng.standard_normal(3 * count).astype(np.float32).tolist(),
        nodes_modes=["BRANCH_LT", "LEAF", "LEAF"] * count,
        nodes_truenodeids=np.tile([1, 0, 0], count).tolist(),
        nodes_falsenodeids=np.tile([2, 0, 0], count).tolist(),
        target_treeids=np.repeat(np.arange(count), 2).tolist(),
        target_nodeids=np.tile([1, 2], count).tolist(),
        target_ids=[0] * (2 * count),
        target_weights=rng.standard_normal(2 * count).astype(np.float32).tolist(),
        n_targets=1,
    )
    x, y = (helper.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("x", 8), ("y", 1)))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    data = helper.make_model(
        helper.make_graph([node], "trees", [x], [y]), opset_imports=opsets, ir_version=10
    ).SerializeToString()
    fresh = session(data, prepared="0")
    assert stored(session(data)) == "yes"
    second = session(data)
    assert found(second) == "yes"
    rows = {"x": rng.standard_normal((50, 8)).astype(np.float32)}
    assert all(map(equal, fresh.run(None, rows), second.run(None, rows)))
    mine, other = (_attributes(made) for made in (second, fresh))
    assert mine == other


def _attributes(made: Any) -> dict[str, Any]:
    [node] = made._state.prepared.model.graph.nodes
    return {name: attribute.value for name, attribute in node.attributes.items()}
