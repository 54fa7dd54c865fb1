"""Pointwise and depthwise Conv of images that lie in ONNX's own order: they stay in it (decision 0032)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ort_lite.graph import Node, Value
from ort_lite.native.digest import digest
from ort_lite.record import Record
from ort_lite.shapes import minimum, product
from ort_lite_cpu.kernels.gemm import plane_rows, planes
from ort_lite_cpu.kernels.gemm.gemm import DEPTH
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.lowering.candidates import Candidate
from ort_lite_cpu.lowering.lowered import whole
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import contiguous, emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.conv_costs import work_of_depthwise_planes, work_of_pointwise, work_of_strided_pointwise
from ort_lite_cpu.operators.conv_layouts import CONVOLUTIONS, moves_of_planes
from ort_lite_cpu.operators.convolutions import ConvCase, Epilogue, Geometry, Weight


def _reject_pointwise(case: ConvCase) -> str:
    if not case.sizes.is_pointwise:
        return "an output pixel sees several pixels, or it has groups"
    return _reject_product(case)


def _reject_strides(case: ConvCase) -> str:
    sizes = case.sizes
    if sizes.groups > 1 or sizes.kernel != (1, 1, 1) or sizes.pads != (0, 0, 0):
        return "an output pixel sees several pixels or padding, or it has groups"
    if sizes.strides == (1, 1, 1):
        return "it reads all pixels"
    return _reject_product(case)


def _reject_product(case: ConvCase) -> str:
    op = case.op
    if case.dynamic or (op.has(2) and op.constant(2) is None):
        return "its weight or bias is computed when the model runs"
    count, least = product(case.sizes.result), tile_for(case.native, op.target).columns
    return "" if isinstance(count, int) and count >= least else f"{count} pixels, at least {least} are needed"


def _reject_depthwise(case: ConvCase) -> str:
    if not case.sizes.is_depthwise:
        return "its groups have several channels or outputs, or its window is large"
    if _plane(case.op, case.sizes) is None:
        return "a size is not known, or its window, strides, pads or dilations are none that planes have code for"
    return ""


def _work_of_pointwise(case: ConvCase) -> float:
    return work_that_waits(case.op) + work_of_pointwise(case.numbers, tile_for(case.native, case.op.target))


def _work_of_strides(case: ConvCase) -> float:
    return work_of_strided_pointwise(case.numbers, tile_for(case.native, case.op.target))


def work_that_waits(op: NodeLowering) -> float:
    """Return the work of the depthwise Conv that waits to become one kernel with the node, 0.0 if there is none."""
    before = op.raw(0).later
    return work_of_depthwise_planes(before.sizes.numbers) if isinstance(before, Depthwise) else 0.0


def _moves(case: ConvCase) -> float:
    return moves_of_planes(case.op, case.numbers)


class Plane(Record):
    """The numbers of a depthwise Conv that code is made for, and how its kernels take them."""

    lines: int
    taps: int
    down: int
    across: int
    ahead: int
    iw: int
    oh: int
    ow: int
    lanes: int
    held: bool
    masked: bool
    """True if rows that are not computed in place are read with masks, False if they are copied."""

    @property
    def form(self) -> plane_rows.PlaneForm:
        """The compile-time sizes of the kernel."""
        behind = self.ow + self.taps - 1 - self.ahead - self.iw
        way = plane_rows.MASKED if self.masked else plane_rows.COPIED
        large = self.masked and self.lines >= plane_rows.LARGE
        if self.across == 1 and not large and plane_rows.fits_in_place(self.ow, self.lanes, self.taps, self.ahead, behind):
            way = behind
        tall = plane_rows.TALL if large else plane_rows.ROWS
        numbers = self.lines, self.taps, self.down, self.across, self.ahead
        return plane_rows.PlaneForm(*numbers, way, int(self.held), self.lanes, tall)

    def scratch_size(self, band: int) -> int:
        """Return the elements of the input that `band` rows of output see, with padding, and of the table before them."""
        return 3 + ((band - 1) * self.down + self.lines) * self.across * (self.ow + (self.taps - 1) // self.across)

    def band(self, most: Callable[[int], int], limit: int) -> int:
        """Return the rows that are computed at one place: as many as need no more than the limit, but at least ROWS."""
        rows = plane_rows.ROWS
        while rows < self.oh and most(rows + plane_rows.ROWS) <= limit:
            rows += plane_rows.ROWS
        return rows


def _plane(op: NodeLowering, sizes: Geometry) -> Plane | None:
    """Return the plane, or None if a size is unknown or no kernel supports it: rows need half a vector, or a quarter with masks."""
    numbers = [*sizes.kernel[1:], *sizes.strides[1:], *sizes.pads[1:], *sizes.size[1:], *sizes.result[1:]]
    own, lanes = [number for number in numbers if isinstance(number, int)], tile_for(op.raw(0).native, op.target).lanes
    if len(own) < len(numbers):
        return None
    lines, taps, down, across, above, ahead, _, iw, oh, ow = own
    if max(down, across) > plane_rows.MAX_STRIDE or sizes.dilations[1:] != (1, 1) or min(above, ahead) < 0:
        return None
    masked = plane_rows.can_mask(op.target) and taps <= lanes // 2
    least = 4 if masked and lines * taps <= plane_rows.NARROW else 2
    if lines * taps > plane_rows.MAX_TAPS or least * ow < lanes:
        return None
    if 2 * ow <= lanes or (ow < lanes and not masked):
        lanes //= 2
    held = plane_rows.weights_fit(op.target, lines, taps, across)
    return Plane(lines, taps, down, across, ahead, iw, oh, ow, lanes, held, masked)


# --- Kernels
def _emit_product(case: ConvCase) -> None:
    """Emit a pointwise Conv, together with a depthwise one that waits for it."""
    before, epilogue = case.op.raw(0).later, case.epilogue(None)
    if isinstance(before, Depthwise):
        _emit_separable(case.op, before, case.sizes, case.weight, epilogue)
    else:
        _emit_pointwise(case.op, case.op.input(0), case.sizes, case.weight, epilogue)


def _emit_strides(case: ConvCase) -> None:
    """Emit a copy of the pixels that the strides reach, and a pointwise Conv of these."""
    op, sizes = case.op, case.sizes
    x, dims = op.input(0), (sizes.batch, sizes.channels, *sizes.result)
    picked = op.temporary(x.dtype, dims)
    steps = contiguous((sizes.batch, sizes.channels, *sizes.size))
    strides = [step * stride for step, stride in zip(steps, (1, 1, *sizes.strides), strict=True)]
    emit_strided_copy(op, x, picked, dims, strides, contiguous(dims))
    sizes = sizes.replace(size=sizes.result, strides=(1, 1, 1))
    _emit_pointwise(op, picked, sizes, case.weight, case.epilogue(None))


def _emit_depthwise(case: ConvCase) -> None:
    """Emit a depthwise Conv, or leave it to the pointwise one that alone reads its result."""
    op, plane, shape = case.op, _plane(case.op, case.sizes), case.op.info().shape
    assert plane is not None and shape is not None
    made = Depthwise(op, case.sizes, plane, case.weight, case.epilogue(None))
    if made.can_wait:
        op.set(0, Tensor(op.raw(0).dtype, shape, later=made))
    else:
        made.emit(op.output(0))


def _emit_pointwise(op: NodeLowering, x: Tensor, sizes: Geometry, weight: Weight, epilogue: Epilogue) -> None:
    tile, (w, ones) = tile_for(x.native, op.target), _with_bias(op, weight)
    scratch = op.temporary(x.dtype, (op.most_parts, minimum(DEPTH, sizes.channels + ones), tile.columns))
    y = op.output(0)
    operands = [x, w, epilogue.residual, y, scratch]
    numbers: Any = (sizes.batch, sizes.outputs, sizes.channels, product(sizes.size), ones)
    given: dict[str, Any] = {"g": planes.PixelProduct(*numbers), "tile": tile, **epilogue.activation.arguments}
    op.emit(planes.pointwise, operands, **given, work=sizes.work, result=whole(y))


def _with_bias(op: NodeLowering, weight: Weight) -> tuple[Tensor, int]:
    """Return (rows of a pointwise weight, each followed by its bias, the number of columns that this adds: 0 or 1)."""
    bias = op.constant(2)
    if bias is None:
        return weight.pack(op, "rows", lambda array: array.reshape(len(array), -1)), 0
    column = bias[:, None]
    form = f"rows and bias {digest(bias.tobytes()).hex()}"
    return weight.pack(op, form, lambda array: np.concatenate([array.reshape(len(array), -1), column], 1)), 1


class Depthwise(Record, eq=False):
    """A depthwise Conv of planes."""

    op: NodeLowering
    sizes: Geometry
    plane: Plane
    weight: Weight
    epilogue: Epilogue

    @property
    def can_wait(self) -> bool:
        """Return True if its only reader is a pointwise Conv, and a few rows fit the buffer between the two."""
        op, value = self.op, self.op.node.outputs[0]
        assert value is not None
        if not op.values.is_read_once(value) or self.epilogue.residual is not None or self.epilogue.activation.kind:
            return False
        return plane_rows.ROWS * self.plane.ow <= max(planes.APART) and _is_pointwise(value.readers[0], value)

    def shape(self, band: int) -> planes.PlaneShape:
        """Return the shapes for bands of so many rows."""
        shape = self.sizes.shape
        return planes.PlaneShape(shape.n, shape.c, shape.ih, shape.iw, shape.oh, shape.ow, self.sizes.window.ph, band)

    @property
    def weights(self) -> Tensor:
        """The filter weights, packed as planes if they are constant."""
        return self.weight.tensor or self.weight.pack(self.op, "planes", lambda array: array)

    def emit(self, y: Tensor) -> None:
        """Emit the depthwise convolution into `y`."""
        op, plane, epilogue, x = self.op, self.plane, self.epilogue, self.op.input(0)
        band = plane.band(plane.scratch_size, planes.BAND)
        scratch = op.temporary(x.dtype, (op.most_parts, plane.scratch_size(band)))
        operands = [x, self.weights, epilogue.bias, epilogue.residual, y, scratch]
        given: dict[str, Any] = {"g": self.shape(band), "form": plane.form, **epilogue.activation.arguments}
        op.emit(planes.depthwise_planes, operands, **given, work=self.sizes.work * 4, result=whole(y))


def _emit_separable(op: NodeLowering, first: Depthwise, sizes: Geometry, weight: Weight, epilogue: Epilogue) -> None:
    """Emit both at once: the values between them stay in the caches."""
    x, plane, between = first.op.input(0), first.plane, first.epilogue.activation
    tile, (w, ones) = tile_for(x.native, op.target), _with_bias(op, weight)
    apart = min(apart for apart in planes.APART if apart >= plane_rows.ROWS * plane.ow)
    band = plane.band(lambda rows: rows * plane.ow, apart)
    scratch = op.temporary(x.dtype, (op.most_parts, plane.scratch_size(band) + (sizes.channels + ones) * apart))
    operands = [x, first.weights, first.epilogue.bias, w, epilogue.residual, y := op.output(0), scratch]
    numbers: Any = (sizes.outputs, ones, between.low, between.high, *tile, apart // tile.lanes)
    given: dict[str, Any] = {
        "g": first.shape(band),
        "product": planes.SeparableProduct(*numbers),
        "form": plane.form,
    }
    given |= epilogue.activation.arguments
    op.emit(planes.separable, operands, **given, work=first.sizes.work * 4 + sizes.work, result=whole(y))


def _is_pointwise(node: Node, value: Value) -> bool:
    """Return True if the node is a pointwise Conv of the value by a constant, and reads the value only as its input."""
    if node.op_type not in CONVOLUTIONS or node.inputs[0] is not value or node.attr("group", 1) != 1:
        return False
    weight = node.inputs[1]
    return weight is not None and weight.constant is not None and set(weight.constant.shape[2:]) == {1}


PLANES: Final = (
    Candidate[ConvCase]("pointwise", _reject_pointwise, _work_of_pointwise, _emit_product, _moves),
    Candidate[ConvCase]("pointwise_strided", _reject_strides, _work_of_strides, _emit_strides, _moves),
    Candidate[ConvCase](
        "depthwise_planes", _reject_depthwise, lambda case: work_of_depthwise_planes(case.numbers), _emit_depthwise, _moves
    ),
)
"""Kernels of images in ONNX's own order that see one pixel, or one channel."""
