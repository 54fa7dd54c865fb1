"""Consolidation of a model's tensors into one buffer: less fragmentation, and a single region to map or upload."""

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.errors import OutOfMemory
from ort_lite.graph.model import Model
from ort_lite.load.parse_options import TensorBufferOptions
from ort_lite.load.spans import Backing, span_of
from ort_lite.load.tensor_slot import TensorSlot
from ort_lite.load.tensors import model_tensors


class ConsolidatedBuffer(Backing):
    """The buffer of a model's tensors."""

    __slots__ = ()


def consolidate_tensors_to_buffer(model: Model, opts: TensorBufferOptions | None = None) -> None:
    """Move every tensor of at least `opts.raw_data_threshold` bytes to one new buffer.

    Covers initialisers, attributes, nested graphs and functions. Smaller tensors, and those without raw bytes (`span_of` is None),
    are unchanged. Each span is borrowed and owned by the buffer, which lives as long as any of them. With `opts.alignment`, the
    buffer's start and all offsets are multiples of it; 0 means the element type's. An array used in two places stays shared. Does
    nothing if the tensors are already laid out this way. O(bytes). Raises OutOfMemory if the buffer cannot be allocated.
    """
    opts = TensorBufferOptions() if opts is None else opts
    slots: dict[int, list[TensorSlot]] = {}
    for slot in model_tensors(model):
        span = slot.span
        if span is not None and span.nbytes and span.nbytes >= opts.raw_data_threshold:
            slots.setdefault(id(slot.array), []).append(slot)
    arrays = [same[0].array for same in slots.values()]
    offsets, total = _offsets(arrays, opts.alignment)
    if not arrays or _lie_so(arrays, offsets, total, opts.alignment):
        return
    buffer = _allocate(total, opts.alignment)
    for array, offset in zip(arrays, offsets, strict=True):
        buffer[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
    buffer.setflags(write=False)
    backing = ConsolidatedBuffer(buffer, "consolidated")
    for array, offset, shared in zip(arrays, offsets, slots.values(), strict=True):
        moved = backing.span(offset, array.nbytes).array(from_numpy(array.dtype), array.shape)
        for slot in shared:
            slot.array = moved


def _offsets(arrays: list[Array], alignment: int) -> tuple[list[int], int]:
    """Return the offset of each array, and the end of the last."""
    offsets, at = [], 0
    for array in arrays:
        step = alignment or array.dtype.alignment
        at = -(-at // step) * step
        offsets.append(at)
        at += array.nbytes
    return offsets, at


def _lie_so(arrays: list[Array], offsets: list[int], total: int, alignment: int) -> bool:
    """Return True if all arrays are already at these offsets of a consolidated buffer of that size."""
    spans = [span for array in arrays if (span := span_of(array)) is not None]
    owner = spans[0].owner
    if not isinstance(owner, ConsolidatedBuffer) or owner.nbytes != total or (alignment and owner.address % alignment):
        return False
    found = [(span.owner is owner, span.address - owner.address) for span in spans]
    return found == [(True, offset) for offset in offsets]


def _allocate(nbytes: int, alignment: int) -> Array:
    """Return uninitialised bytes that start at a multiple of `alignment`."""
    try:
        memory = np.empty(nbytes + max(alignment, 1) - 1, np.uint8)
    except (MemoryError, ValueError) as error:
        raise OutOfMemory(f"{nbytes:,} bytes of tensors, aligned to {alignment}, cannot be allocated: {error}") from error
    start = -memory.ctypes.data % alignment if alignment else 0
    return memory[start : start + nbytes]
