"""Transposed convolution for kernels whose size only a run tells: plain loops over what meets each output pixel."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, null, span
from ort_lite_cpu.kernels.gemm.geometry import ConvolutionShape, Window


@native
@extents(x="n * id_ * ih * iw * c", w="c * outputs * kd * kh * kw", bias="o", y="n * od * oh * ow * o")
def conv_transpose(x: Ptr, w: Ptr, bias: Ptr, y: Ptr, g: ConvolutionShape, window: Window, part: int, parts: int) -> int:
    """y (n, od, oh, ow, o) from x (n, id, ih, iw, c) and w (c, o / groups, kd, kh, kw), names as in ConvolutionShape and Window.

    Strides are positive, and c and o multiples of groups: the lowering of ConvTranspose. Spec: ONNX ConvTranspose-22.
    """
    taps = window.kd * window.kh * window.kw
    for pixel in span(g.n * g.od * g.oh * g.ow, part, parts):
        w0, h0 = pixel % g.ow + window.pw, pixel // g.ow % g.oh + window.ph
        d0, batch = pixel // (g.ow * g.oh) % g.od + window.pd, pixel // (g.ow * g.oh * g.od)
        for j in range(g.o):
            y[pixel * g.o + j] = like(y, 0) if null(bias) else bias[j]
        for tap in range(taps):
            wi, hi, di = (
                w0 - tap % window.kw * window.dw,
                h0 - tap // window.kw % window.kh * window.dh,
                d0 - tap // (window.kw * window.kh) * window.dd,
            )
            if (
                wi < 0
                or wi % window.sw != 0
                or wi // window.sw >= g.iw
                or hi < 0
                or hi % window.sh != 0
                or hi // window.sh >= g.ih
            ):
                continue
            if di < 0 or di % window.sd != 0 or di // window.sd >= g.id_:
                continue
            at = (((batch * g.id_ + di // window.sd) * g.ih + hi // window.sh) * g.iw + wi // window.sw) * g.c
            for k in range(g.c):
                target, source = pixel * g.o + k // g.channels * g.outputs, k * g.outputs * taps + tap
                for j in range(g.outputs):
                    y[target + j] += x[at + k] * w[source + j * taps]
    return OK
