"""Measure into the performance record, docs/performance.jsonl, and regenerate the pages that show it.

    python -m tests.benchmarks.table                            # the benchmark rows against onnxruntime, with 1 and 2 threads
    python -m tests.benchmarks.table --against openvino
    python -m tests.benchmarks.table --operators                # the operators of tests/benchmarks/operators.txt
    python -m tests.benchmarks.table --models FOLDER            # NAME.onnx and its feeds NAME.npz
    python -m tests.benchmarks.table --forget CPU               # remove what was measured on a CPU, such as an outdated one
    python -m tests.benchmarks.table --render                   # only regenerate the pages

Takes minutes, on a machine that does nothing else. With --only, rows whose names contain a text are measured. A measurement replaces
that of the same row, CPU, rival and number of threads. Others stay, except those of operators that are no longer in the table. With
--record, another file is updated, and the pages of the repository stay as they are. --document names a page to regenerate from it.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ort_lite
from ort_lite.errors import format_error
from ort_lite.tools.cli.bench_command import lines
from ort_lite.tools.cli.benchmark.comparison import Result, compare_runs
from ort_lite.tools.cli.benchmark.machine_peaks import cores, cpu
from ort_lite.tools.cli.benchmark.rivals import RIVALS, Rival, rival
from tests.benchmarks.document import PAGES, performance, regenerate
from tests.benchmarks.operators import operator_names, operators
from tests.benchmarks.record import DECIMALS, RECORD, Measurement, merge, read, rounded, write
from tests.benchmarks.rows import Row, rows
from tests.benchmarks.speed_chart import CHARTS

THREADS = (1, 2)
SECONDS = {"model": 3.0, "operator": 1.0}


def measure(row: Row, threads: int, against: Rival, seconds: float) -> Result:
    """Time one row. `failed` of the result says why the rival could not run it."""
    name, options = f"{row.name}, {threads}", ort_lite.SessionOptions()
    options.intra_op_num_threads = threads
    with ort_lite.InferenceSession(row.model, options, providers=["CPUExecutionProvider"]) as session:
        outputs = [output.name for output in session.get_outputs()]
        try:
            theirs, control = (against.open(row.model, threads, row.feeds) for _ in range(2))
            theirs()
        except Exception as error:  # noqa: BLE001  whatever another runtime raises
            return Result(name, failed=f"{against.name}: {format_error(error)}")
        return compare_runs(name, partial(session.run, None, row.feeds), theirs, control, outputs, against.name, seconds)


def measurement(row: Row, threads: int, result: Result, against: Rival, seconds: float) -> Measurement:
    """Return what the record says of a result on this machine."""
    assert result.ratio is not None and result.noise is not None
    return Measurement(
        kind="operator" if row.operator else "model",
        name=row.operator or row.name,
        threads=threads,
        rival=against.name,
        shapes=row.shapes,
        attributes=row.attributes,
        dtype=row.dtype,
        rival_version=against.version,
        ours=rounded(result.ours),
        theirs=rounded(result.theirs),
        ratio=None if result.differences else round(result.ratio, DECIMALS),
        noise=round(result.noise, DECIMALS),
        differs=bool(result.differences),
        seconds=seconds,
        **here(),
    )


def here() -> dict[str, Any]:
    """Return the fields of a measurement that say where and when it is made."""
    name, features = cpu()
    today = datetime.now(UTC).date().isoformat()
    return {
        "cpu": name,
        "features": features,
        "version": ort_lite.__version__,
        "date": today,
        "cores": cores(),
        "numpy": np.__version__,
    }


def of_folder(folder: Path) -> Iterator[Row]:
    """Yield a row for each model, sorted by name."""
    for path in sorted(folder.glob("*.onnx")):
        with np.load(path.with_suffix(".npz")) as held:
            feeds = {name: held[name].astype(object) if held[name].dtype.kind == "U" else held[name] for name in held.files}
        yield Row(path.stem, path.read_bytes(), feeds, dtype="")


def update(arguments: argparse.Namespace) -> None:
    """Measure, and write the record after each row: an interruption loses no measurement."""
    against = rival(arguments.against)
    known = operator_names()
    record = (
        [m for m in read(arguments.record) if m.kind != "operator" or m.title in known] if arguments.record.exists() else []
    )
    chosen = operators() if arguments.operators else of_folder(arguments.models) if arguments.models else rows()
    seconds = arguments.seconds if arguments.seconds is not None else SECONDS["operator" if arguments.operators else "model"]
    for row in chosen:
        if arguments.only not in row.name:
            continue
        for threads in THREADS:
            result = measure(row, threads, against, seconds)
            print("\n".join(lines(result, against.name)), flush=True)
            if not result.failed:
                record = merge(record, [measurement(row, threads, result, against, seconds)])
        write(record, arguments.record)


def forget(name: str, record: Path) -> None:
    """Remove the measurements of a CPU. Ends with an error if there are none."""
    measurements = read(record)
    kept = [m for m in measurements if m.cpu != name]
    if len(kept) == len(measurements):
        raise SystemExit(f"--forget {name}: the record has {', '.join(sorted({m.cpu for m in measurements}))}")
    write(kept, record)


def render(record: Path, document: Path | None = None) -> None:
    """Regenerate the pages and charts of the repository, or only the document."""
    measurements = read(record)
    pages = {document: performance} if document else PAGES if record == RECORD else {}
    for path, generate in pages.items():
        print(f"{path.name}: {'regenerated' if regenerate(path, generate(measurements)) else 'unchanged'}")
    if document is None and record == RECORD:
        for path, draw in CHARTS.items():
            path.write_text(draw(measurements), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.table", description=(__doc__ or "").partition("\n")[0])
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--operators", action="store_true", help="measure single operators")
    kinds.add_argument("--models", type=Path, metavar="FOLDER", help="measure the models of a folder")
    kinds.add_argument(
        "--forget", metavar="CPU", help="measure nothing, remove all measurements of the CPU with exactly this name"
    )
    kinds.add_argument("--render", action="store_true", help="measure nothing, regenerate the pages")
    parser.add_argument("--against", default=RIVALS[0], choices=RIVALS, help="the rival (default: %(default)s)")
    parser.add_argument("--seconds", type=float, help="for each row and number of threads (default: 3, operators 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure rows whose names contain the text")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help="update this record instead")
    parser.add_argument("--document", type=Path, metavar="FILE", help="regenerate this page instead")
    arguments = parser.parse_args()
    if arguments.forget is not None:
        forget(arguments.forget, arguments.record)
    elif not arguments.render:
        update(arguments)
    render(arguments.record, arguments.document)


if __name__ == "__main__":
    main()
