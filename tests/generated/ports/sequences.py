"""Sequences, and Loop, whose outputs of all iterations are stacked."""

from typing import Any

import numpy as np
from onnx.reference.ops.op_loop import Loop

from ort_lite.dtypes import Array
from tests.generated.ports.registry import port


@port("SequenceInsert")
def sequence_insert(sequence: list[Array], tensor: Array, position: Array | None = None) -> list[Array]:
    found = list(sequence)
    place = len(found) if position is None else int(np.ravel(position)[0])
    found.insert(place + len(sequence) if place < 0 else place, tensor)
    return found


class StackingLoop(Loop):
    """As the Loop of onnx.reference, which joins the outputs of iterations where they should be stacked."""

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
            given = {**(context or {}), names[0]: np.array(iteration, np.int64), names[1]: np.array(go)}
            given.update(zip(names[2:], state, strict=True))
            results = self._run_body(given, attributes=attributes, bindings=bindings)
            go, state = bool(np.all(results[0])), list(results[1 : 1 + self.N])
            for one, value in zip(kept, results[1 + self.N :], strict=True):
                one.append(value)
            iteration += 1
        return (*state, *(np.stack(one) for one in kept))
