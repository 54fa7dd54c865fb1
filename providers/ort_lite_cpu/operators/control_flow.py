"""The If, Loop and Scan operators as steps that call compiled bodies between two segments. Arrays carry state between iterations."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.errors import OrtLiteError, RunTerminated
from ort_lite.graph import Graph, Node, TensorType, Value
from ort_lite.inference import UNKNOWN, Info, constant_info
from ort_lite.provider import Body
from ort_lite_cpu.lowering.inline import settle
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.copying import assign, contiguous, stack
from ort_lite_cpu.operators.jumping import as_branches, as_loop, as_scan
from ort_lite_cpu.operators.rowless import Rowless, info_of
from ort_lite_cpu.registry import ANY, operator
from ort_lite_cpu.run.pace import check


class Captured:
    """A body with the positions of its captures among the arrays that the step receives after the node's own inputs."""

    def __init__(self, op: NodeLowering, graph: Graph, captures: Sequence[Value]) -> None:
        self._body: Body = op.values.bodies[graph]
        settle(self._body, inlined=False)
        self._inside = f"{graph.name!r} of {op.node}"
        self._take = [captures.index(value) for value in self._body.captures]
        self.node = op.node
        self._pace = op.pace

    def __call__(self, inputs: Sequence[Any], captured: Sequence[Any]) -> list[Any]:
        check(self.node)  # a body without a step never looks
        try:
            return self._body(inputs, [captured[k] for k in self._take])
        except RunTerminated:
            raise
        except OrtLiteError as error:
            error.inside(self._inside)
            raise

    def settle(self, kept: Sequence[Any]) -> None:
        """Raise OutOfMemory if the strings that the caller keeps from trip to trip exceed the session's memory limit."""
        self._pace.settle(kept)


def captures_of(op: NodeLowering, *graphs: Graph) -> list[Value]:
    """Return the outer values that the compiled bodies ask for, each once, in order."""
    return list(dict.fromkeys(value for graph in graphs for value in op.values.bodies[graph].captures))


def _nobody_calls(op: NodeLowering, *graphs: Graph) -> None:
    for graph in graphs:
        settle(op.values.bodies[graph], inlined=True)


def _passthrough_outputs(graph: Graph) -> set[int]:
    """Return the outputs of the body that are one of its inputs, a capture or a constant, and not computed by it."""
    return {k for k, value in enumerate(graph.outputs) if value.producer is None or value.producer.graph is not graph}


@operator("If", types=frozenset({"bool"}))
def if_(op: NodeLowering) -> None:
    """Run the branch that the condition names; its outputs may differ in shape from those of the other. Spec: ONNX If-21."""
    then_graph, else_graph = op.attr("then_branch"), op.attr("else_branch")
    if as_branches(op):
        _nobody_calls(op, then_graph, else_graph)
        return
    captures = captures_of(op, then_graph, else_graph)
    branches = (Captured(op, else_graph, captures), Captured(op, then_graph, captures))

    def step(condition: Array, *captured: Any) -> list[Any]:
        return branches[bool(_only(condition, "condition"))]([], captured)

    shared = _passthrough_outputs(then_graph) | _passthrough_outputs(else_graph)
    op.values.host(op.node, step, python=False, captures=captures, shared=shared)


def _only(array: Array, what: str) -> Any:
    """Return the element of an array that has one. Raises ValueError for others."""
    if array.size != 1:
        raise ValueError(f"the {what} has {array.size} elements, expected one")
    return array.reshape(-1)[0]


@operator("Loop", types=ANY)
def loop(op: NodeLowering) -> None:
    """Run a body in a loop; trip count and condition are optional, carried values may change shape. Spec: ONNX Loop-21."""
    body_graph: Graph = op.attr("body")
    if as_loop(op):
        _nobody_calls(op, body_graph)
        return
    captures = captures_of(op, body_graph)
    body = Captured(op, body_graph, captures)
    given = len(op.node.inputs)
    carried = given - 2
    stacks = len(body_graph.outputs) - 1 - carried
    rowless = Rowless(op, body_graph, captures, carried, [(0,)] * stacks)
    kinds = [_info_before_run(op, k) for k in range(2, given)]
    node = op.node

    def step(*arrays: Any) -> list[Any]:
        limit, condition, captured = arrays[0], arrays[1], arrays[given:]
        state = list(arrays[2:given])
        scans: list[list[Array]] = [[] for _ in range(stacks)]
        trips = np.iinfo(np.int64).max if limit is None else int(_only(limit, "trip count"))
        going = condition is None or bool(_only(condition, "condition"))
        trip = 0
        while trip < trips and going:
            results = body([np.array(trip, np.int64), np.array(going), *state], captured)
            going = bool(results[0].reshape(-1)[0])
            state = results[1 : 1 + carried]
            for rows, row in zip(scans, results[1 + carried :], strict=True):
                rows.append(row)
            body.settle([state, scans])
            trip += 1
        if not trip:
            start = [constant_info(np.array(0)), constant_info(np.array(going)), *map(info_of, state, kinds)]
            return [*state, *rowless(start, captured)]
        return [*state, *(stack(node, rows, 0) for rows in scans)]

    op.values.host(op.node, step, python=False, captures=captures, shared=range(carried))  # no trip hands the state on


def _info_before_run(op: NodeLowering, index: int) -> Info:
    """Return the Info of an input before the run."""
    value = op.node.inputs[index]
    return UNKNOWN if value is None else op.values.inference.of(value)


def _slices(array: Array) -> Iterator[Array]:
    """Return the slices along the first axis. Those of a vector of strings stay arrays, where NumPy's own iteration gives texts."""
    return (array[k, ...] for k in range(len(array)))


def _turns(body: Captured, state: list[Any], rolled: Sequence[Array], captured: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the state after all slices along the first axes, and what each turn gave beside it."""
    rows = []
    for slices in zip(*map(_slices, rolled), strict=True):
        results = body([*state, *(contiguous(body.node, part) for part in slices)], captured)
        rows.append(results[len(state) :])
        state = results[: len(state)]
        body.settle([state, rows])
    return state, rows


@operator("Scan", since=9, types=ANY)
def scan(op: NodeLowering) -> None:
    """Scan inputs slice by slice along an axis of each, in either direction; outputs are stacked along theirs. Spec: ONNX Scan-21."""
    body_graph: Graph = op.attr("body")
    if as_scan(op):
        _nobody_calls(op, body_graph)
        return
    captures = captures_of(op, body_graph)
    body = Captured(op, body_graph, captures)
    given = len(op.node.inputs)
    scanned: int = op.attr("num_scan_inputs")
    states = given - scanned
    outputs = len(body_graph.outputs) - states
    in_axes = op.attr("scan_input_axes", [0] * scanned)
    in_backward = op.attr("scan_input_directions", [0] * scanned)
    out_axes = op.attr("scan_output_axes", [0] * outputs)
    out_backward = op.attr("scan_output_directions", [0] * outputs)
    rowless = Rowless(op, body_graph, captures, states, [(axis,) for axis in out_axes])
    kinds = [_info_before_run(op, k) for k in range(states)]
    node = op.node

    def step(*arrays: Any) -> list[Any]:
        rolled = [np.moveaxis(a, axis, 0) for a, axis in zip(arrays[states:given], in_axes, strict=True)]
        rolled = [a[::-1] if back else a for a, back in zip(rolled, in_backward, strict=True)]
        state, rows = _turns(body, list(arrays[:states]), rolled, arrays[given:])
        if rows:
            turned = [[row[k] for row in (rows[::-1] if back else rows)] for k, back in enumerate(out_backward)]
            wholes = [stack(node, parts, 0) for parts in turned]
        else:
            wholes = rowless([*map(info_of, state, kinds), *map(_slice_info, rolled)], arrays[given:])
        turned_back = [_move_first_axis(whole, axis) for whole, axis in zip(wholes, out_axes, strict=True)]
        return [*state, *(contiguous(node, whole) for whole in turned_back)]

    op.values.host(op.node, step, python=False, captures=captures, shared=range(states))


def _slice_info(rolled: Array) -> Info:
    """Return the Info of the slice that an iteration would read."""
    return Info(TensorType(from_numpy(rolled.dtype), rolled.shape[1:]))


def _move_first_axis(whole: Array, axis: int) -> Array:
    """Return the first axis moved to where it belongs. Rows of unknown rank may have fewer axes than that."""
    return np.moveaxis(whole, 0, axis) if -whole.ndim <= axis < whole.ndim else whole


@operator("Scan", types=ANY)
def scan_batch(op: NodeLowering) -> None:
    """Scan each entry of a batch, along axis 1, as long as sequence_lens says; zeros behind. Spec: ONNX Scan-8.

    Backwards means from the end of each sequence, not of its padding.
    """
    body_graph: Graph = op.attr("body")
    captures = captures_of(op, body_graph)
    body = Captured(op, body_graph, captures)
    given = len(op.node.inputs)
    scanned: int = op.attr("num_scan_inputs")
    states = given - 1 - scanned
    backward = op.attr("directions", [0] * scanned)
    outputs = len(body_graph.outputs) - states
    rowless = Rowless(op, body_graph, captures, states, [(0, 1)] * outputs)
    node = op.node

    def step(*arrays: Any) -> list[Any]:
        start, xs = arrays[1 : 1 + states], arrays[1 + states : given]
        batch, longest = xs[0].shape[:2]
        lengths = [longest] * batch if arrays[0] is None else _lengths(arrays[0], batch, longest)
        ends, rows = [], []
        for b, length in enumerate(lengths):
            rolled = [x[b, :length][::-1] if back else x[b, :length] for x, back in zip(xs, backward, strict=True)]
            end, found = _turns(body, [np.asarray(x[b, ...], order="C") for x in start], rolled, arrays[given:])
            ends.append(end)
            rows.append(found)
        states_now = [stack(node, parts, 0) for parts in zip(*ends, strict=True)] if ends else [x.copy() for x in start]
        results = next((found[0] for found in rows if found), None)
        if results is None:
            slices = [*(_slice_info(x) for x in start), *(Info(TensorType(from_numpy(x.dtype), x.shape[2:])) for x in xs)]
            samples = rowless(slices, arrays[given:])
        else:
            samples = [result[None] for result in results]
        return [*states_now, *(_pad(node, rows, k, longest, sample) for k, sample in enumerate(samples))]

    op.values.host(op.node, step, python=False, captures=captures)


def _lengths(lengths: Array, batch: int, longest: int) -> list[int]:
    if lengths.shape != (batch,) or not all(0 <= length <= longest for length in lengths):
        raise ValueError(f"sequence_lens is {lengths.tolist()}; {batch} numbers from 0 to {longest} are expected")
    return [int(length) for length in lengths]


def _pad(node: Node, rows: Sequence[Sequence[Any]], k: int, longest: int, sample: Array) -> Array:
    """Return (batch, longest, ...): output k of each turn of each entry, zeros where there was none. `sample`: as some rows."""
    shape = len(rows), longest, *sample.shape[1:]
    whole = np.full(shape, "", object) if sample.dtype == object else np.zeros(shape, sample.dtype)
    for b, found in enumerate(rows):
        for t, results in enumerate(found):
            assign(node, whole[b, t : t + 1], results[k][None])
    return whole
