"""Build the zoo, the models that people deploy today with random weights, and measure it.

    python -m tests.benchmarks.zoo build DIR [NAME...]      # all models, or these; what is there already stays
    python -m tests.benchmarks.zoo measure DIR [NAME...]    # compare with onnxruntime and OpenVINO, with 1 and 2 threads
    python -m tests.benchmarks.zoo measure DIR --write      # also update docs/performance.jsonl and the pages that show it

Both need the environment of tests/benchmarks/zoo/requirements.txt. Nothing is downloaded: weights are random, from fixed seeds. All
models build in 12 minutes and are measured in 12 more, on a machine that does nothing else and has the kernels in its cache: measure
once with --seconds 0 to fill it. A measurement replaces that of the same model, CPU, rival and number of threads.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from tests.benchmarks.compare.processes import Failed
from tests.benchmarks.record import DECIMALS, RECORD, Measurement, merge, read, rounded, write
from tests.benchmarks.table import here, render
from tests.benchmarks.zoo.catalog import ZOO
from tests.benchmarks.zoo.measure import OURS, REFERENCE, Measured, Pool, Sizes, measure


def main() -> int:
    arguments = _arguments()
    names = arguments.names or list(ZOO)
    if unknown := sorted({*names} - {*ZOO}):
        raise SystemExit(f"{', '.join(unknown)}: no model of the zoo; there are {', '.join(ZOO)}")
    if arguments.command == "build":
        return build(arguments.folder, names, arguments.force)
    return measure_all(arguments, names)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.zoo", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build models")
    building.add_argument("--force", action="store_true", help="build what is there already")
    measuring = commands.add_parser("measure", help="compare with other runtimes")
    measuring.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (default: 1 2)")
    measuring.add_argument("--seconds", type=float, default=3.0, help="for each model and number of threads (default: 3)")
    measuring.add_argument("--without", action="append", default=[], choices=["openvino"], help="leave out a rival")
    measuring.add_argument("--write", action="store_true", help="update the performance record, and the pages that show it")
    measuring.add_argument("--record", type=Path, default=RECORD, metavar="FILE", help="update this record instead")
    for command in (building, measuring):
        command.add_argument("folder", type=Path, metavar="DIR", help="the folder of the models")
        command.add_argument("names", nargs="*", metavar="NAME", help="models (default: all)")
    return parser.parse_args()


def build(folder: Path, names: Sequence[str], force: bool) -> int:
    """Build models, each in a process of its own, since exporters leave things behind. Returns 1 if one failed."""
    failed = 0
    for name in names:
        place = folder / name
        if place.exists() and not force:
            continue
        if len(names) == 1:
            build_one(name, place)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with (folder / f"{name}.log").open("w") as log:
            command = [sys.executable, "-m", "tests.benchmarks.zoo", "build", str(folder), name, *["--force"] * force]
            status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=1800, check=False).returncode
        print(f"{name:24s} {f'failed: {log.name}' if status else 'built'}, {time.monotonic() - began:.0f} s", flush=True)
        failed |= int(status != 0)
    return failed


def build_one(name: str, place: Path) -> None:
    """Build a model in this process. Its folder appears once it is complete."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded
    partial = place.with_name(f"{name}.partial")
    for folder in (partial, place):
        shutil.rmtree(folder, ignore_errors=True)
    partial.mkdir(parents=True)
    getattr(import_module(f"tests.benchmarks.zoo.{ZOO[name].family}"), name)(partial)
    partial.rename(place)


def measure_all(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Print a line for each model and number of threads, and write the record after each. Returns 1 if a model is wrong or failed."""
    began, bad = time.monotonic(), 0
    rivals = [rival for rival in ("openvino",) if rival not in arguments.without]
    for threads in arguments.threads:
        with Pool(rivals, threads) as pool:
            versions = pool.versions()
            for name in names:
                title = f"{name}, {threads} thread{'s' * (threads > 1)}"
                try:
                    found = measure(pool, sizes_of(arguments.folder, name), arguments.seconds)
                except Failed as error:
                    print(f"{title}  failed: {error}", flush=True)
                    bad = 1
                    continue
                print(line(title, found), flush=True)
                bad |= int(OURS in found.wrong)
                if arguments.write:
                    made = measurements(name, threads, found, versions, arguments.seconds)
                    write(merge(read(arguments.record), made), arguments.record)
    print(f"{len(names)} models in {(time.monotonic() - began) / 60:.1f} minutes")
    if arguments.write:
        render(arguments.record)
    return bad


def sizes_of(folder: Path, name: str) -> Sizes:
    """Return the files of a model. Raises Failed if it was not built."""
    place = folder / name
    if not place.exists():
        raise Failed(f"{place} does not exist; build it with: python -m tests.benchmarks.zoo build {folder} {name}")
    others = place / "feeds2.npz"
    return Sizes(place / "model.onnx", place / "feeds.npz", others if others.exists() else None, ZOO[name].tolerance)


def measurements(name: str, threads: int, found: Measured, versions: dict[str, str], seconds: float) -> Iterator[Measurement]:
    """Yield what the record says of each rival that ran the model."""
    ours = found.times[OURS]
    for rival in [name for name in found.times if name in versions and name not in (OURS, "control")]:
        theirs, differs = found.times[rival], bool(found.wrong.keys() & {OURS, rival})
        yield Measurement(
            kind="zoo",
            name=name,
            threads=threads,
            rival=rival,
            dtype=ZOO[name].dtype,
            rival_version=versions[rival],
            ours=rounded(ours),
            theirs=rounded(theirs),
            ratio=None if differs else round(theirs / ours, DECIMALS),
            noise=None if found.noise is None else round(found.noise, DECIMALS),
            roofline=rounded(found.roofline or None),
            differs=differs,
            seconds=seconds or None,
            **here(),
        )


def line(title: str, found: Measured) -> str:
    """Return the report on a model."""
    ours = found.times[OURS]
    text = f"{title}  ort_lite {ours * 1e3:.4g} ms"
    if found.roofline:
        text += f", {found.roofline / ours:.0%} of the roofline"
    for rival, theirs in found.times.items():
        if rival not in (OURS, "control"):
            text += f"  {rival} {theirs * 1e3:.4g} ms, ratio {theirs / ours:.2f}"
    text += f"  ({REFERENCE} to itself {found.noise:.2f})" if found.noise else ""
    for name, reason in {**found.failed, **found.wrong}.items():
        text += f"\n  {name} {'fails' if name in found.failed else 'differs'}: {' '.join(reason.split())[-160:]}"
    return text


if __name__ == "__main__":
    sys.exit(main())
