"""`examples/ocr.py`: the text that is read is the text that was drawn."""

import pytest

from examples import ocr
from examples.ocr import LINES, Reader


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader()


def test_it_reads_what_was_drawn(reader: Reader) -> None:
    assert reader.read(ocr.drawn()) == list(LINES)


def test_it_reads_other_lines_of_other_widths(reader: Reader) -> None:
    lines = ("A", "Platform 9, coach 21, seat 64", "Gate closes 17:45", "Turn me round")
    assert reader.read(ocr.drawn(lines)) == list(lines)


def test_the_classifier_turns_the_last_line_alone(reader: Reader) -> None:
    picture = ocr.drawn()
    crops = [picture.crop(box) for box in reader.boxes(picture)]
    assert [reader.turned(crop) is not crop for crop in crops] == [False, False, True]
    assert reader.read_line(crops[-1]) != LINES[-1]


def test_an_empty_picture_has_no_lines(reader: Reader) -> None:
    assert reader.read(ocr.drawn(())) == []
