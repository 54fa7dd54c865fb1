"""Sequences, and Loop and Scan, whose outputs of all iterations are stacked."""

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_loop import Loop
from onnx.reference.ops.op_scan import Scan

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port


@port("SequenceInsert")
def sequence_insert(sequence: list[Array], tensor: Array, position: Array | None = None) -> list[Array]:
    found = list(sequence)
    place = len(found) if position is None else int(np.ravel(position)[0])
    found.insert(place + len(sequence) if place < 0 else place, tensor)
    return found


class StackingLoop(Loop):
    """The Loop of onnx.reference, which joins the outputs of iterations where they should be stacked."""

    body: Any
    _run_body: Any

    def _run(
        self, M: Any, cond: Any, *args: Any, context: Any = None, body: Any = None, attributes: Any = None, bindings: Any = None
    ) -> tuple[Any, ...]:
        names = self.body.input_names
        kept: list[list[Array]] = [[] for _ in range(self.K)]
        state = list(args)
        go, iteration = cond is None or bool(np.all(cond)), 0
        while go and (M is None or iteration < int(np.ravel(M)[0])):
            operands = {**(context or {}), names[0]: np.array(iteration, np.int64), names[1]: np.array(go)}
            operands.update(zip(names[2:], state, strict=True))
            results = self._run_body(operands, attributes=attributes, bindings=bindings)
            go, state = bool(np.all(results[0])), list(results[1 : 1 + self.N])
            for one, value in zip(kept, results[1 + self.N :], strict=True):
                one.append(value)
            iteration += 1
        return (*state, *(np.stack(one) for one in kept))


class StackingScan(Scan):
    """Scan of version 9 and later, with all directions and axes."""

    body: Any
    num_scan_inputs: int

    def __init__(self, onnx_node: Any, run_params: Any) -> None:
        OpRun.__init__(self, onnx_node, run_params)

    def _run(
        self, *args: Any, context: Any = None, attributes: Any = None, bindings: Any = None, **how: Any
    ) -> tuple[Any, ...]:
        if self.run_params["opsets"][""] < 9:
            raise NotImplementedError("Scan of version 8")
        scans = self.num_scan_inputs
        state, inputs = list(args[:-scans]), list(args[-scans:])
        names, outputs = self.body.input_names, len(self.body.output_names) - len(state)
        axes = how.get("scan_input_axes") or [0] * scans
        length = inputs[0].shape[axes[0]]
        backward = how.get("scan_input_directions") or [0] * scans
        parts = [
            np.moveaxis(value, axis, 0)[:: -1 if back else 1] for value, axis, back in zip(inputs, axes, backward, strict=True)
        ]
        kept: list[list[Array]] = [[] for _ in range(outputs)]
        for step in range(length):
            operands = {**(context or {}), **dict(zip(names, [*state, *(part[step] for part in parts)], strict=True))}
            results = self.body.run(None, operands, attributes=attributes)
            state = list(results[: len(state)])
            for one, value in zip(kept, results[len(state) :], strict=True):
                one.append(value)
        back_out = how.get("scan_output_directions") or [0] * outputs
        places = how.get("scan_output_axes") or [0] * outputs
        ordered = [one[:: -1 if back else 1] for one, back in zip(kept, back_out, strict=True)]
        return (*state, *(np.stack(one, axis) for one, axis in zip(ordered, places, strict=True)))
