"""Records of the sizes that kernels of convolutions and pools take."""

from typing import NamedTuple


class ConvolutionShape(NamedTuple):
    """Shapes of a convolution, channels last: x (n, id, ih, iw, c), y (n, od, oh, ow, o)."""

    n: int
    c: int
    id_: int
    ih: int
    iw: int
    o: int
    od: int
    oh: int
    ow: int
    groups: int
    channels: int
    """c / groups."""
    outputs: int
    """o / groups."""


class Window(NamedTuple):
    """The window of a convolution or a pool along depth, height and width: k: kernel, s: stride, p: padding in front, d: dilation."""

    kd: int
    kh: int
    kw: int
    sd: int
    sh: int
    sw: int
    pd: int
    ph: int
    pw: int
    dd: int
    dh: int
    dw: int


class ImageShape(NamedTuple):
    """Shapes of a convolution of images, channels last: x (n, ih, iw, c), y (n, oh, ow, o), and the padding above and left of x."""

    n: int
    c: int
    ih: int
    iw: int
    o: int
    oh: int
    ow: int
    groups: int
    channels: int
    """c / groups."""
    outputs: int
    """o / groups."""
    ph: int
    pw: int


class ResultPlace(NamedTuple):
    """The place of a result's rows: the first starts at element `at`, the next one `ldy` elements further."""

    at: int
    ldy: int
