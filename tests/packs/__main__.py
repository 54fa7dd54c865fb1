"""python -m tests.packs list FOLDER | build FILE [TARGET ...] | wheel PACK FOLDER | check WHEEL ...: kernel packs.

`list` writes models.txt anew, from the models in a folder and those of the tests: the kernels that they ask for on each target. `build`
compiles these, what the cases of ONNX's test suite ask for, generic kernels, and the loops that measure peaks, for the named targets or
this machine alone ("own"); "x86_64" and "aarch64" stand for all of an architecture. `wheel` makes an ort-lite-kernels wheel of a pack.
`check` installs wheels into a fresh environment that has no compiler, and compares the time from import to the first result with
onnxruntime's.
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ort_lite.native import Spec, cpu
from ort_lite.native.instructions import loops
from ort_lite.plugins import shape_rules
from ort_lite_cpu.program.generic import generic_specs
from tests.cpu import integer_models
from tests.emulation.work import Work, cases, models
from tests.packs import asked, fresh, listing, wheels
from tests.packs.build import TARGETS, build, own

LIST = Path(__file__).with_name("models.txt")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list").add_argument("folder", type=Path)
    making = commands.add_parser("build")
    making.add_argument("file", type=Path)
    making.add_argument("targets", nargs="*", default=["own"])
    making.add_argument("--cases", type=int, default=1, help="of the suite's cases every so many; 0: none")
    packing = commands.add_parser("wheel")
    packing.add_argument("pack", type=Path)
    packing.add_argument("folder", type=Path)
    checking = commands.add_parser("check")
    checking.add_argument("wheels", type=Path, nargs="+")
    checking.add_argument("--times", type=float, default=math.inf, help="of onnxruntime's time at most; for a quiet machine")
    chosen = parser.parse_args()
    if chosen.command == "list":
        listing.write(LIST, _listed(sorted(chosen.folder.rglob("*.onnx"))))
    elif chosen.command == "build":
        return _build(chosen.file, chosen.targets, chosen.cases)
    elif chosen.command == "wheel":
        print(wheels.kernels(chosen.pack, chosen.folder))
    else:
        return 0 if fresh.check(chosen.wheels, chosen.times) else 1
    return 0


def _listed(files: Sequence[Path]) -> dict[Spec, set[str]]:
    """By spec, for which targets it is."""
    own_models, suite = list(models()), list(cases(0, 1))
    found: dict[Spec, set[str]] = {}
    for name in (*TARGETS["x86_64"], *TARGETS["aarch64"]):
        with asked.pretended(cpu.parse_target(name)) as specs:
            for model in (*files, *(work.model for work in own_models), *integer_models.models()):
                asked.load(model)
        for spec in specs:
            found.setdefault(spec, set()).add(name)
        print(f"{name}: {len(specs)} kernels", flush=True)
    for spec in _of_runs_alone(files, [*own_models, *suite]):
        found.setdefault(spec, set()).update(*TARGETS.values())
    return found


def _of_runs_alone(files: Sequence[Path], work: Sequence[Work]) -> set[Spec]:
    """What is asked for in a run alone: parts of control flow, the planner. It is the same for all targets."""
    with asked.pretended(cpu.host()) as loaded:
        for model in (*files, *(one.model for one in work)):
            asked.load(model)
    with asked.recorded() as all_of_them:
        for one in work:
            asked.run(one.model, one.runs)
        for file in files:
            asked.run(file, None)
    return all_of_them - loaded


def _build(file: Path, names: Sequence[str], every: int) -> int:
    began, listed = time.monotonic(), listing.read(LIST)
    suite = list(cases(0, every)) if every else []
    wanted: dict[str, set[Spec]] = {}
    for name in [one for text in names for one in TARGETS.get(text, [own() if text == "own" else text])]:
        with asked.pretended(cpu.parse_target(name)) as specs:
            for one in suite:
                asked.load(one.model, one.rounding)
        known = name if name in cpu.NAMES else "host"
        measuring = {spec for spec, _ in loops(cpu.parse_target(known)).values()}
        wanted[name] = specs | measuring | {*generic_specs(known, shape_rules())}
        wanted[name] |= {spec for spec, targets in listed.items() if name in targets}
        print(f"{name}: {len(wanted[name])} kernels", flush=True)
    problems = build(file, wanted)
    print("\n".join([*problems, f"{file}: {file.stat().st_size / 1e6:.1f} MB in {time.monotonic() - began:.0f} s"]), flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
