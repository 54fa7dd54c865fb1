"""Reads a picture: three models in a row find the lines of text, turn those that stand on their head, and read them.

    pip install pillow && pip install --no-deps rapidocr-onnxruntime    (for its models alone: PP-OCR v4, 16 MB, Apache-2.0)
    python examples/ocr.py [PICTURE]

Without a picture it draws one, whose last line is upside down. What happens between the models is NumPy: a line is found where the
detector's map is white, so lines have to be level. Every line of a picture has a width of its own: one session takes all of them.
"""

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import ort_lite

LINES = ("Invoice 20417", "Total due: 1,284.50 USD", "Thank you for your order!")
HEIGHT = 48
"""Pixels of a line of text, as the models that turn and read them were trained."""

Picture = Image.Image
Pixels = NDArray[np.float32]
Box = tuple[int, int, int, int]


class Reader:
    """The three models, and what goes from one to the next."""

    def __init__(self) -> None:
        self._detector = _session("ch_PP-OCRv4_det_infer")
        self._classifier = _session("ch_ppocr_mobile_v2.0_cls_infer")
        self._recogniser = _session("ch_PP-OCRv4_rec_infer")
        letters = self._recogniser.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._letters = ["", *letters, " "]  # the first says: no letter, or the same one still

    def read(self, picture: Picture) -> list[str]:
        """The lines of text, from top to bottom."""
        return [self.read_line(self.turned(picture.crop(box))) for box in self.boxes(picture)]

    def boxes(self, picture: Picture) -> list[Box]:
        """Where lines are. The model takes sizes that 32 divides, and marks the inside of each line, less a margin."""
        width, height = (max(32, round(size / 32) * 32) for size in picture.size)
        (marked,) = self._detector.run(None, {"x": _pixels(picture.resize((width, height)))[None]})
        scale = np.array([*picture.size, *picture.size]) / (width, height, width, height)
        edges = [np.clip(_widened(box), 0, (width, height, width, height)) for box in _lines(marked[0, 0] > 0.3)]
        return [tuple((box * scale).astype(int).tolist()) for box in edges]

    def turned(self, line: Picture) -> Picture:
        """The line, by half a turn where the classifier is sure that it stands on its head."""
        (likely,) = self._classifier.run(None, {"x": _pixels(_fitted(line, 192))[None]})
        return line.rotate(180) if likely[0, 1] > 0.9 else line

    def read_line(self, line: Picture) -> str:
        """One letter, or none, for every 8 pixels; a letter that goes on is told again."""
        (likely,) = self._recogniser.run(None, {"x": _pixels(_fitted(line))[None]})
        told = likely[0].argmax(-1)
        news = np.append(True, told[1:] != told[:-1])
        return "".join(self._letters[letter] for letter in told[news]).strip()


def _session(name: str) -> ort_lite.InferenceSession:
    """The package's file, without importing the package."""
    file = metadata.distribution("rapidocr-onnxruntime").locate_file(f"rapidocr_onnxruntime/models/{name}.onnx")
    return ort_lite.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def _pixels(picture: Picture) -> Pixels:
    """(3, height, width) from -1 to 1; blue first, as the models were trained."""
    return np.asarray(picture.convert("RGB"), np.float32)[..., ::-1].transpose(2, 0, 1) / np.float32(127.5) - np.float32(1)


def _fitted(line: Picture, width: int | None = None) -> Picture:
    """HEIGHT pixels high; of the same proportions, or `width` wide, with grey to its right or squeezed."""
    own = max(8, round(line.width * HEIGHT / line.height))
    if width is None:
        return line.resize((own, HEIGHT))
    fitted = Image.new("RGB", (width, HEIGHT), (128, 128, 128))
    fitted.paste(line.resize((min(own, width), HEIGHT)), (0, 0))
    return fitted


def _lines(marked: NDArray[np.bool_]) -> Iterator[Box]:
    """A box about what is marked in each run of rows, and in it about what no gap wider than the run is high divides."""
    for top, low in _runs(np.any(marked, axis=1), 1):
        for left, right in _runs(np.any(marked[top:low], axis=0), low - top):
            if low - top > 4:
                yield left, top, right, low


def _runs(marked: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """(start, end) of what is marked; less than `gap` apart is one."""
    places = np.flatnonzero(marked)
    if not len(places):
        return []
    parts: Sequence[NDArray[np.intp]] = np.split(places, np.flatnonzero(np.diff(places) > gap) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]


def _widened(box: Box) -> Box:
    """With the margin that the detector leaves out: 1.6 times the box's area by its circumference."""
    left, top, right, low = box
    width, height = right - left, low - top
    margin = round(1.6 * width * height / (2 * (width + height)))
    return left - margin, top - margin, right + margin, low + margin


def drawn(lines: Sequence[str] = LINES) -> Picture:
    """A picture of the lines, the last of them upside down."""
    picture = Image.new("RGB", (640, 80 + 80 * len(lines)), "white")
    for index, line in enumerate(lines):
        strip = Image.new("RGB", (560, 60), "white")
        ImageDraw.Draw(strip).text((10, 8), line, fill="black", font=ImageFont.load_default(36))
        picture.paste(strip.rotate(180 if index == len(lines) - 1 else 0), (40, 50 + 80 * index))
    return picture


def main() -> None:
    picture = Image.open(sys.argv[1]) if len(sys.argv) > 1 else drawn()
    reader = Reader()
    for box in reader.boxes(picture):
        line = reader.turned(picture.crop(box))
        print(f"{reader.read_line(line):<30} in pixels {box}")
    if len(sys.argv) == 1:
        print("drawn were: " + " | ".join(LINES))


if __name__ == "__main__":
    main()
