"""Room behind the rows of a cache: a run that owns a past may have its present computed in the same memory (see `Program.grow`)."""

from typing import NamedTuple

from ort_lite.dtypes import itemsize
from ort_lite.shapes import as_symbol, less, maximum, product, symbol
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.lowered import ROOM, SymbolSource
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor


class Rooms(NamedTuple):
    """The rows from one head to the next of a past and of its present, and 1 if the rows of the past are there already."""

    past: Dim
    present: Dim
    shared: Dim = 0


def rooms_of(op: NodeLowering, past: Tensor | None, present: Tensor, output: int, total: Dim) -> Rooms:
    """Return the rooms of a past (batch, heads, rows, size), an input, and of output `output`, which has `total` rows.

    They are the rows themselves unless a run says otherwise, which it may if nothing else reads the two.
    """
    rows = 0 if past is None else past.shape[2]
    if past is None or isinstance(total, int) or not _is_cache(op, past, output):
        return Rooms(rows, total)
    assert past.buffer is not None and present.buffer is not None
    room, result = symbol(f"room of {past.name}"), op.builder.result
    own = as_symbol(room)
    assert own is not None
    result.sources[own] = SymbolSource(past.buffer, ROOM, element=False)
    result.rooms[present.buffer] = past.buffer
    rooms = Rooms(maximum(room, rows), maximum(room, total), 1 - less(room, total))
    for tensor, length in ((past, rooms.past), (present, rooms.present)):
        assert tensor.buffer is not None
        tensor.buffer.nbytes = product((*tensor.shape[:2], length, tensor.shape[3])) * itemsize(tensor.dtype)
    return rooms


def _is_cache(op: NodeLowering, past: Tensor, output: int) -> bool:
    """Return True if the past is an input of the program, and the present an output (see `program.aliases.find_growths`)."""
    target, result = op.node.outputs[output] if op.wants(output) else None, op.builder.result
    own = result.inputs[: len(result.input_infos)]
    return target is not None and target.is_graph_output() and past.perm is None and past.buffer in own
