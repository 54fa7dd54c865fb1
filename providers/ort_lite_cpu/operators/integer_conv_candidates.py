"""Candidates for convolutions of bytes: instructions that multiply them as they come, and Winograd's algorithm."""

from __future__ import annotations

from typing import Final, NamedTuple

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite_cpu.kernels.gemm import byte_tile, integer_winograd
from ort_lite_cpu.kernels.gemm.byte_tile import DotTile
from ort_lite_cpu.lowering.candidates import Candidate, choose
from ort_lite_cpu.operators import integer_conv_costs as costs
from ort_lite_cpu.operators.byte_candidates import INSTRUCTIONS, ByteProduct
from ort_lite_cpu.operators.convolutions import Geometry


class ByteConv(Record, eq=False):
    """A convolution of bytes that is not depthwise, for the candidates that may compute it."""

    product: ByteProduct
    """The product of pixels and filters of a group."""
    sizes: Geometry
    centred: Array | None
    """The weight less its zero points, (O, C / groups, *kernel); None unless both are constant."""


class ConvForm(NamedTuple):
    """The tile that multiplies bytes, None if they are widened, and True for Winograd's algorithm."""

    tile: DotTile | None
    winograd: bool = False


def choose_form(case: ByteConv) -> ConvForm:
    """Return the form of the cheapest candidate, and note it for `explain(kernels=True)`."""
    form: ConvForm = choose(case.product.op, CANDIDATES, case).emit(case)
    return form


def is_flat(sizes: Geometry) -> bool:
    """Return True for two axes, adjacent taps and padding that is known."""
    flat = sizes.size[0] == sizes.result[0] == sizes.kernel[0] == 1 and sizes.dilations[2] == 1 and sizes.pads[0] == 0
    return flat and all(isinstance(pad, int) and pad >= 0 for pad in sizes.pads)


def has_bytes(centred: Array) -> bool:
    """Return True if there are weights, all of which are numbers of int8."""
    return centred.size > 0 and centred.min() >= -128 and centred.max() <= 127


def _is_known(sizes: Geometry) -> bool:
    return all(isinstance(size, int) for size in sizes.result)


def _reject_winograd(case: ByteConv) -> str:
    sizes, target = case.sizes, case.product.op.target
    if byte_tile.vector_tile(target) is None or not target.has_vnni or not target.has(integer_winograd.NEEDS):
        return "the CPU does not add up products of 16 bits in one instruction (VNNI)"
    if target.has_tiles:
        return "the CPU has tiles (AMX), which multiply bytes several times as fast"
    plain = sizes.kernel == (1, 3, 3) and sizes.strides == sizes.dilations == (1, 1, 1) and sizes.groups == 1
    if not plain or not is_flat(sizes):
        return "it is no 3x3 convolution without strides, dilations and groups"
    if not _is_known(sizes):
        return "the size of its images is not known"
    if case.centred is None or not has_bytes(case.centred):
        return "its weight is computed when the model runs, or is no int8 without its zero points"
    return "" if integer_winograd.fits(case.centred) else "its sums may exceed 25 bits"


def _work_of_winograd(case: ByteConv) -> float:
    tile = byte_tile.vector_tile(case.product.op.target)
    assert tile is not None
    return costs.work_of_winograd(case.sizes.numbers, tile) + case.product.read(tile.columns, 4)


def _direct(instruction: Candidate[ByteProduct]) -> Candidate[ByteConv]:
    """Return the candidate that multiplies bytes by an instruction."""

    def work(case: ByteConv) -> float:
        sizes, tile = case.sizes, byte_tile.vector_tile(case.product.op.target)
        if instruction.name != "dots" or tile is None or sizes.is_pointwise or sizes.groups != 1:
            return instruction.cost(case.product)
        if not is_flat(sizes) or not _is_known(sizes):
            return instruction.cost(case.product)
        direct = min(costs.work_of_lines(sizes.numbers, tile), costs.work_of_windows(sizes.numbers, tile))
        return direct + case.product.read(tile.columns, 4)

    def emit(case: ByteConv) -> ConvForm:
        return ConvForm(instruction.emit(case.product))

    return Candidate(instruction.name, lambda case: instruction.fits(case.product), work, emit)


CANDIDATES: Final = (
    *map(_direct, INSTRUCTIONS),
    Candidate[ByteConv](
        "winograd-pairs",
        _reject_winograd,
        _work_of_winograd,
        lambda case: ConvForm(byte_tile.vector_tile(case.product.op.target), winograd=True),
    ),
)
"""The instructions of products, of which dots count as the better of the direct forms of a convolution, and Winograd's algorithm."""
