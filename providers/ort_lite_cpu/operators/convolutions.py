"""The parts of a convolution that all its kernels share: sizes, weight, and epilogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ort_lite.dtypes import Array
from ort_lite.graph import Node
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import nominal
from ort_lite_cpu.kernels.gemm import depthwise
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, ImageShape, Window
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators import FAMILIES

Triple = tuple[Dim, Dim, Dim]


class ConvolutionNumbers(NamedTuple):
    """The sizes of a convolution as numbers; `channels` and `outputs` are those of a group, `size` counts the pixels of an image."""

    batch: int
    groups: int
    channels: int
    outputs: int
    size: int
    od: int
    oh: int
    ow: int
    taps: int
    line: int
    """The taps along a line of pixels."""
    stride: int
    """The stride along a line."""
    lines: int
    """The lines of pixels that an output sees, with those between its taps."""
    span: int
    """The pixels from the first tap of a line to the last."""

    @property
    def result(self) -> int:
        """The pixels of the result, over the whole batch."""
        return self.batch * self.od * self.oh * self.ow

    @property
    def images(self) -> int:
        """The elements of the images."""
        return self.batch * self.groups * self.channels * self.size

    @property
    def results(self) -> int:
        """The elements of the result."""
        return self.result * self.groups * self.outputs

    @property
    def elements(self) -> int:
        """The elements of the images and of the result."""
        return self.images + self.results

    @property
    def weights(self) -> int:
        """The elements of the weight."""
        return self.groups * self.outputs * self.channels * self.taps


class Geometry(Record):
    """The sizes of a convolution, with spatial axes padded to three in front; `pads` are those in front of each axis."""

    batch: Dim
    channels: Dim
    size: Triple
    outputs: Dim
    result: Triple
    kernel: Triple
    strides: Triple
    pads: Triple
    dilations: Triple
    groups: int

    @property
    def shape(self) -> ConvolutionShape:
        """The sizes of the images and their channels, for kernels."""
        each = self.channels // self.groups, self.outputs // self.groups
        sizes: Any = (self.batch, self.channels, *self.size, self.outputs, *self.result, self.groups, *each)
        return ConvolutionShape(*sizes)

    @property
    def window(self) -> Window:
        """The kernel, strides, pads and dilations, for kernels."""
        sizes: Any = (*self.kernel, *self.strides, *self.pads, *self.dilations)
        return Window(*sizes)

    @property
    def images(self) -> ImageShape:
        """The sizes of a convolution that is flat: its depth is 1."""
        shape, window = self.shape, self.window
        return ImageShape(shape.n, shape.c, shape.ih, shape.iw, shape.o, shape.oh, shape.ow, *shape[-3:], window.ph, window.pw)

    @property
    def pixels(self) -> Dim:
        """The number of pixels in the result, over the whole batch."""
        return self.batch * product(self.result)

    @property
    def work(self) -> Dim:
        """The estimated work of the convolution."""
        depth = product(self.kernel) * (self.channels // self.groups)
        return self.pixels * self.outputs * depth // 40

    @property
    def is_pointwise(self) -> bool:
        """Return True if every pixel is multiplied by the same matrix."""
        return self.groups == 1 and self.sees_one_pixel

    @property
    def sees_one_pixel(self) -> bool:
        """Return True if each output pixel reads exactly one input pixel."""
        plain = self.kernel == self.strides == (1, 1, 1) and self.pads == (0, 0, 0)
        return plain and all(same(a, b) for a, b in zip(self.size, self.result, strict=True))

    @property
    def is_depthwise(self) -> bool:
        """Return True if each group has one channel and one output, within the depthwise kernels' limits."""
        flat = self.size[0] == self.result[0] == self.kernel[0] == 1
        narrow = isinstance(self.kernel[2], int) and self.kernel[2] <= depthwise.MAX_TAPS
        narrow = narrow and isinstance(self.strides[2], int) and self.strides[2] <= depthwise.MAX_STRIDE
        return self.groups > 1 and self.channels == self.outputs == self.groups and flat and narrow

    @property
    def axes(self) -> int:
        """The number of axes that the kernel spans: 1 if it has one line, 2 otherwise."""
        return 1 if self.kernel[1] == 1 else 2

    @property
    def column_as_line(self) -> Geometry:
        """The same convolution with a column of pixels as a line, if images are one column: they are the same in memory."""
        names = ("size", "result", "kernel", "strides", "dilations", "pads")
        triples: list[Triple] = [getattr(self, name) for name in names]
        if not all(same(across, 0 if name == "pads" else 1) for name, (_, _, across) in zip(names, triples, strict=True)):
            return self
        return self.replace(**{name: (a, c, b) for name, (a, b, c) in zip(names, triples, strict=True)})

    @property
    def plane_as_line(self) -> Geometry:
        """The same convolution with the pixels of an image as one line, if each output pixel reads one input pixel."""
        if not self.sees_one_pixel:
            return self
        line: Triple = (1, 1, product(self.result))
        return self.replace(size=line, result=line, dilations=(1, 1, 1))

    @property
    def numbers(self) -> ConvolutionNumbers:
        """The sizes as numbers. A batch that is open counts as one image, other open sizes as `nominal` has them."""
        batch = self.batch if isinstance(self.batch, int) else 1
        triples = self.size, self.result, self.kernel, self.strides, self.dilations
        (d, h, w), (od, oh, ow), (kd, kh, kw), (_, _, sw), (_, dh, dw) = (tuple(map(nominal, triple)) for triple in triples)
        channels, outputs = nominal(self.channels) // self.groups, nominal(self.outputs) // self.groups
        images = batch, self.groups, channels, outputs, d * h * w, od, oh, ow
        reach = (kh - 1) * dh + 1, (kw - 1) * dw
        return ConvolutionNumbers(*images, kd * kh * kw, kw, sw, *reach)

    def tiles(self, edge: int) -> Dim:
        """Return the number of tiles of edge x edge outputs, or of `edge` outputs along one axis."""
        lines = self.result[1] if self.axes == 1 else ceildiv(self.result[1], edge)
        return self.batch * lines * ceildiv(self.result[2], edge)


class Weight(Record):
    """A weight (O, C / groups, *kernel): an array, or a contiguous tensor that is computed at run time.

    The array is computed from `source` in the way that `form` names, so that it is packed once.
    """

    array: Array | None = None
    tensor: Tensor | None = None
    source: Array | None = None
    form: str = ""

    def pack(self, op: NodeLowering, form: str, make: Callable[[Array], Array]) -> Tensor:
        """Return the constant weight, converted by `make` and cached under `form`."""
        array, source = self.array, self.source
        assert array is not None and source is not None
        return op.pack(source, f"{form} {self.form}", lambda: make(array))


class Epilogue(Record):
    """The bias, residual and activation applied to the result of a convolution."""

    bias: Tensor | None = None
    residual: Tensor | None = None
    activation: Activation = NONE


class ConvCase(Record, eq=False):
    """A convolution, for the candidates that may compute it."""

    op: NodeLowering
    sizes: Geometry
    weight: Weight
    epilogue: Callable[[tuple[int, ...] | None], Epilogue]
    """A function that returns the epilogue, its residual in a storage order."""
    images: Callable[[tuple[int, ...] | None], tuple[Tensor, Tensor]]
    """A function that returns (input, result) in memory, in a storage order."""
    numbers: ConvolutionNumbers

    @property
    def native(self) -> str:
        """The native type of the images."""
        return self.op.raw(0).native

    @property
    def dynamic(self) -> str:
        """The reason why a kernel that packs its weight before the run does not fit, or ""."""
        return "its weight is computed when the model runs" if self.weight.array is None else ""


# --- Readers of images
def family_of(node: Node) -> str:
    """Return the operator family of the node, or "" if there is none."""
    return FAMILIES.get((node.domain, node.op_type), "")


def takes_channels_last(node: Node) -> bool:
    """Return True if an operator other than Conv has a kernel that reads images channels last."""
    return node.op_type == "LRN" or family_of(node) in ("pooling", "conv_transpose", "resize")
