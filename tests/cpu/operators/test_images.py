"""ImageDecoder."""

import io
import sys

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import RuntimeException
from tests.cpu.check import check_op, ramp, run_op

PIXELS = np.abs(ramp((5, 7, 3), "int32")).astype(np.uint8)


def encoded(kind: str) -> Array:
    image = pytest.importorskip("PIL.Image", reason="the extra 'image' is not installed")
    stream = io.BytesIO()
    image.fromarray(PIXELS).save(stream, kind)
    return np.frombuffer(stream.getvalue(), np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM"])
def test_decodes_to_the_pixels(kind: str) -> None:
    check_op("ImageDecoder", encoded(kind), expected=PIXELS)


def test_blue_may_come_first() -> None:
    check_op("ImageDecoder", encoded("PNG"), pixel_format="BGR", expected=PIXELS[:, :, ::-1])


def test_gray_is_one_channel_of_luminance() -> None:
    [got] = run_op("ImageDecoder", [encoded("PNG")], {"pixel_format": "Grayscale"})
    assert got.shape == (5, 7, 1)
    assert np.abs(got[:, :, 0] - PIXELS @ [0.299, 0.587, 0.114]).max() <= 1


def test_without_pillow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RuntimeException, match=r"ImageDecoder 'node' .*pip install pillow"):
        run_op("ImageDecoder", [np.zeros(4, np.uint8)])


def test_what_is_no_image_is_an_error() -> None:
    pytest.importorskip("PIL", reason="the extra 'image' is not installed")
    with pytest.raises(RuntimeException, match=r"ImageDecoder 'node' .*cannot identify image"):
        run_op("ImageDecoder", [np.zeros(4, np.uint8)])


def test_other_pixel_formats_are_declined() -> None:
    with pytest.raises(NotSupported, match="pixel_format CMYK"):
        run_op("ImageDecoder", [np.zeros(4, np.uint8)], {"pixel_format": "CMYK"})
