"""ImageDecoder, of formats that lose nothing."""

import io

import numpy as np
from PIL import Image

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, Right, case
from tests.cpu.check import ramp

PIXELS = np.abs(ramp((5, 7, 3), "int32")).astype(np.uint8)


def encoded(kind: str) -> Array:
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, kind)
    return np.frombuffer(stream.getvalue(), np.uint8)


def gray(_: Array, pixel_format: str) -> Right:
    """One channel, the luminance rounded either way."""
    luminance = PIXELS @ np.array([0.299, 0.587, 0.114])
    return Right(PIXELS[:, :, :1], lambda got: got.shape == (5, 7, 1) and np.abs(got[:, :, 0] - luminance).max() <= 1)


CASES: tuple[Case, ...] = (
    *[case("ImageDecoder", encoded(kind), oracle=lambda _: PIXELS) for kind in ("PNG", "BMP", "PPM", "TIFF")],
    case("ImageDecoder", encoded("PNG"), oracle=lambda *_, **__: PIXELS, pixel_format="RGB"),
    case("ImageDecoder", encoded("PNG"), oracle=lambda *_, **__: PIXELS[:, :, ::-1], pixel_format="BGR"),
    case("ImageDecoder", encoded("PNG"), oracle=gray, pixel_format="Grayscale"),
)
