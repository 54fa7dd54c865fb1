"""Transposed convolution for kernel sizes known only at run time: plain loops over the inputs of each output pixel."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, null, span
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window


@native
@extents(
    x="g.n * g.id_ * g.ih * g.iw * g.c",
    w="g.c * g.outputs * window.kd * window.kh * window.kw",
    bias="g.o",
    y="g.n * g.od * g.oh * g.ow * g.o",
)
def conv_transpose(x: Ptr, w: Ptr, bias: Ptr, y: Ptr, g: ConvolutionShape, window: Window, part: int, parts: int) -> int:
    """y (n, od, oh, ow, o) = x (n, id, ih, iw, c) convolved, transposed, with w (c, o / groups, kd, kh, kw), + bias (o,).

    Strides are positive, c and o multiples of groups. Parts share output pixels. Spec: ONNX ConvTranspose-22.
    """
    taps = window.kd * window.kh * window.kw
    for pixel in span(g.n * g.od * g.oh * g.ow, part, parts):
        w0, h0 = pixel % g.ow + window.pw, pixel // g.ow % g.oh + window.ph
        d0, batch = pixel // (g.ow * g.oh) % g.od + window.pd, pixel // (g.ow * g.oh * g.od)
        for j in range(g.o):
            y[pixel * g.o + j] = like(y, 0) if null(bias) else bias[j]
        for tap in range(taps):
            wi, hi = w0 - tap % window.kw * window.dw, h0 - tap // window.kw % window.kh * window.dh
            di = d0 - tap // (window.kw * window.kh) * window.dd
            if wi < 0 or wi % window.sw != 0 or wi // window.sw >= g.iw:
                continue
            if hi < 0 or hi % window.sh != 0 or hi // window.sh >= g.ih:
                continue
            if di < 0 or di % window.sd != 0 or di // window.sd >= g.id_:
                continue
            at = (((batch * g.id_ + di // window.sd) * g.ih + hi // window.sh) * g.iw + wi // window.sw) * g.c
            for k in range(g.c):
                target, source = pixel * g.o + k // g.channels * g.outputs, k * g.outputs * taps + tap
                for j in range(g.outputs):
                    y[target + j] += x[at + k] * w[source + j * taps]
    return OK
