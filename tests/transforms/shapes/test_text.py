"""Strings."""

import numpy as np

from tests.transforms.shapes.checking import check, infer, tensor, text

X = tensor("string", "N", 3)


def test_splitting_adds_an_axis() -> None:
    check("StringSplit", np.array(["a b", "c"], object), outputs=2, data_dependent=True)
    assert [text(y) for y in infer("StringSplit", X, outputs=2)] == ["string[N, 3, y0#1]", "int64[N, 3]"]


def test_stop_words_shorten() -> None:
    assert text(infer("StringNormalizer", X)[0]) == "string[N, 3]"
    assert text(infer("StringNormalizer", X, stopwords=["a"])[0]) == "string[N, y0#1]"


def test_images_have_as_many_channels_as_their_format() -> None:
    data = tensor("uint8", "K")
    assert text(infer("ImageDecoder", data)[0]) == "uint8[y0#1, y0#2, 3]"
    assert text(infer("ImageDecoder", data, pixel_format="Grayscale")[0]) == "uint8[y0#1, y0#2, 1]"
