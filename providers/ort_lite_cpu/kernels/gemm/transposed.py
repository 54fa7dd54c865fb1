"""Transposed convolution for kernels whose size only a run tells: plain loops over what meets each output pixel."""

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, null, span


@native
@extents(
    x="n * id_ * ih * iw * c",
    w="c * (o // groups) * kd * kh * kw",
    bias="o",
    y="n * od * oh * ow * o",
)
def conv_transpose(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    y: Ptr,
    n: int,
    c: int,
    id_: int,
    ih: int,
    iw: int,
    o: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    pd: int,
    ph: int,
    pw: int,
    dd: int,
    dh: int,
    dw: int,
    groups: int,
    part: int,
    parts: int,
) -> int:
    """y (n, od, oh, ow, o) from x (n, id, ih, iw, c) and w (c, o / groups, kd, kh, kw), names as in `convolution.Sizes`.

    Strides are positive, and c and o multiples of groups: the lowering of ConvTranspose. Spec: ONNX ConvTranspose-22.
    """
    channels, outputs = c // groups, o // groups
    taps = kd * kh * kw
    for pixel in span(n * od * oh * ow, part, parts):
        w0, h0 = pixel % ow + pw, pixel // ow % oh + ph
        d0, batch = pixel // (ow * oh) % od + pd, pixel // (ow * oh * od)
        for j in range(o):
            y[pixel * o + j] = like(y, 0) if null(bias) else bias[j]
        for tap in range(taps):
            wi, hi, di = w0 - tap % kw * dw, h0 - tap // kw % kh * dh, d0 - tap // (kw * kh) * dd
            if wi < 0 or wi % sw != 0 or wi // sw >= iw or hi < 0 or hi % sh != 0 or hi // sh >= ih:
                continue
            if di < 0 or di % sd != 0 or di // sd >= id_:
                continue
            at = (((batch * id_ + di // sd) * ih + hi // sh) * iw + wi // sw) * c
            for k in range(c):
                target, source = pixel * o + k // channels * outputs, k * outputs * taps + tap
                for j in range(outputs):
                    y[target + j] += x[at + k] * w[source + j * taps]
    return OK
