"""The table of docs/performance.md: every row with one thread and with two against onnxruntime, as a section of this CPU.

    python -m tests.benchmarks.table [--against openvino] [--models FOLDER] [--seconds S] [--only TEXT] [--document FILE]

Takes a few minutes, on a machine that does nothing else. With --models the rows are the models of a folder, NAME.onnx and its feeds
NAME.npz, and so are those of the section. With --only the rows whose names contain the text are shown, and nothing is written. Sections
of other CPUs, and of this one against another rival, stay.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

import ort_lite
from ort_lite.commands.bench import lines
from ort_lite.commands.benchmark.comparison import NOISE, Result, compared
from ort_lite.commands.benchmark.machine import cores, cpu
from ort_lite.commands.benchmark.rivals import Rival, rival
from tests.benchmarks.document import DIFFERS, MEAN, MODELS, geometric_mean, table, with_section
from tests.benchmarks.rows import Row, rows

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
THREADS = (1, 2)
USUAL = "onnxruntime"
Found = Mapping[str, Sequence[Result]]
"""By row, a result for each number of threads."""


def measured(row: Row, threads: int, against: Rival, seconds: float) -> Result:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    with ort_lite.InferenceSession(row.model, options, providers=["CPUExecutionProvider"]) as session:
        outputs = [output.name for output in session.get_outputs()]
        theirs, control = (against.open(row.model, threads, row.feeds) for _ in range(2))
        ours = partial(session.run, None, row.feeds)
        return compared(f"{row.name}, {threads}", ours, theirs, control, outputs, against.name, seconds)


def heading(name: str, features: Sequence[str], against: str = USUAL, models: bool = False) -> str:
    whole = f"{name}: {', '.join(features)}" if features else name
    return whole + f"; against {against}" * (against != USUAL) + MODELS * models


def of_folder(folder: Path) -> Iterator[Row]:
    """A row a model, sorted by name."""
    for path in sorted(folder.glob("*.onnx")):
        with np.load(path.with_suffix(".npz")) as held:
            feeds = {name: held[name].astype(object) if held[name].dtype.kind == "U" else held[name] for name in held.files}
        yield Row(path.stem, path.read_bytes(), feeds)


def section(found: Found, against: str, versions: str, day: str, seconds: float) -> str:
    """Numbers of a CPU. A row whose results differ has no ratio: such times say nothing."""
    columns = [""]
    for threads in THREADS:
        name = f"{threads} thread{'s' * (threads > 1)}"
        columns += [f"ort-lite ms, {name}", f"{against} ms", f"ratio, {name}", f"{against} to itself"]
    body = [[name, *(cell for result in results for cell in _cells(result))] for name, results in found.items()]
    alike = [results for results in found.values() if not any(result.differences for result in results)]
    means = [geometric_mean(results[k].ratio or 1.0 for results in alike) for k in range(len(THREADS))]
    body.append([MEAN, *(cell for mean in means for cell in ("", "", f"**{mean:.2f}**", ""))])
    text = f"{day}, {versions}, {seconds:g} seconds a row and number of threads.{_noise(found, against)}"
    return f"{text}\n\n{table(columns, body)}"


def _cells(result: Result) -> list[str]:
    assert result.ours is not None and result.theirs is not None
    ratio = DIFFERS if result.differences else f"{result.ratio:.2f}"
    return [f"{result.ours * 1e3:.4g}", f"{result.theirs * 1e3:.4g}", ratio, f"{result.noise:.2f}"]


def _noise(found: Found, against: str) -> str:
    noisy = [result.noisy for results in found.values() for result in results]
    return f" In {sum(noisy)} of {len(noisy)} measurements {against} was off from itself by more than {NOISE:.0%}." * any(noisy)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.table")
    parser.add_argument("--against", default=USUAL, help="onnxruntime (the default) or openvino")
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    arguments = parser.parse_args()
    against, found = rival(arguments.against), {}
    for row in rows() if arguments.models is None else of_folder(arguments.models):
        if arguments.only in row.name:
            found[row.name] = [measured(row, threads, against, arguments.seconds) for threads in THREADS]
            for result in found[row.name]:
                print("\n".join(lines(result, against.name)), flush=True)
    if arguments.only:
        return
    versions = f"ort-lite {ort_lite.__version__}, {against.name} {against.version}, NumPy {np.__version__}, {cores()} cores"
    body = section(found, against.name, versions, datetime.now(UTC).date().isoformat(), arguments.seconds)
    document = arguments.document.read_text(encoding="utf-8")
    arguments.document.write_text(
        with_section(document, heading(*cpu(), against.name, arguments.models is not None), body), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
