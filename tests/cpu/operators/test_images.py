"""ImageDecoder."""

import io
import sys
import threading

import numpy as np
import pytest

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.errors import RuntimeException
from ort_lite.provider import RunOptions
from ort_lite.provider.current import as_in
from tests.cpu.check import ramp, run_op

PIXELS = np.abs(ramp((5, 7, 3), "int32")).astype(np.uint8)


def encoded(kind: str) -> Array:
    image = pytest.importorskip("PIL.Image", reason="the extra 'image' is not installed")
    stream = io.BytesIO()
    image.fromarray(PIXELS).save(stream, kind)
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_large_images_are_decoded_in_a_thread_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ort_lite_cpu.operators.images.LARGE", 34)
    threads: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        threads.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    with as_in(RunOptions(), None):
        [got] = run_op("ImageDecoder", [encoded("PNG")])
    np.testing.assert_array_equal(got, PIXELS)
    assert threads == ["ort-lite-ImageDecoder"] * 2  # two runs


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
