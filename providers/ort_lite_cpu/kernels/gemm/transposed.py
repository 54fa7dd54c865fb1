"""Transposed convolution for kernels whose size only a run tells: plain loops over what meets each output pixel."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, null, span
from ort_lite_cpu.kernels.gemm.convolution import ConvolutionSizes


@native
@extents(x="n * id_ * ih * iw * c", w="c * outputs * kd * kh * kw", bias="o", y="n * od * oh * ow * o")
def conv_transpose(x: Ptr, w: Ptr, bias: Ptr, y: Ptr, g: ConvolutionSizes, part: int, parts: int) -> int:
    """y (n, od, oh, ow, o) from x (n, id, ih, iw, c) and w (c, o / groups, kd, kh, kw), names as in `convolution.ConvolutionSizes`.

    Strides are positive, and c and o multiples of groups: the lowering of ConvTranspose. Spec: ONNX ConvTranspose-22.
    """
    taps = g.kd * g.kh * g.kw
    for pixel in span(g.n * g.od * g.oh * g.ow, part, parts):
        w0, h0 = pixel % g.ow + g.pw, pixel // g.ow % g.oh + g.ph
        d0, batch = pixel // (g.ow * g.oh) % g.od + g.pd, pixel // (g.ow * g.oh * g.od)
        for j in range(g.o):
            y[pixel * g.o + j] = like(y, 0) if null(bias) else bias[j]
        for tap in range(taps):
            wi, hi, di = w0 - tap % g.kw * g.dw, h0 - tap // g.kw % g.kh * g.dh, d0 - tap // (g.kw * g.kh) * g.dd
            if wi < 0 or wi % g.sw != 0 or wi // g.sw >= g.iw or hi < 0 or hi % g.sh != 0 or hi // g.sh >= g.ih:
                continue
            if di < 0 or di % g.sd != 0 or di // g.sd >= g.id_:
                continue
            at = (((batch * g.id_ + di // g.sd) * g.ih + hi // g.sh) * g.iw + wi // g.sw) * g.c
            for k in range(g.c):
                target, source = pixel * g.o + k // g.channels * g.outputs, k * g.outputs * taps + tap
                for j in range(g.outputs):
                    y[target + j] += x[at + k] * w[source + j * taps]
    return OK
