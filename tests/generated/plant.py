"""Plant faults into a copy of the sources, and count the models until a comparison finds each.

    python -m tests.generated.plant --seed 1 [--faults 30] [--models 2000] [--only TEXT]

A seed chooses the faults, spread over their kinds. A failure counts if the sources without the fault pass the same model.
Exit status 1 if a fault is not found, or its model is not reduced to 3 nodes.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import onnx

from tests.generated import saved
from tests.generated.faults import KINDS, ROOT, Fault, catalogue
from tests.generated.run import REDUCED
from tests.generated.verdict import DIFFERENT, Verdict
from tests.generated.workers import Task, Worker

FOLDER = ROOT / "build" / "planted"
SOURCES = ("ort_lite", "providers", "transforms", "tests")
MOST_NODES = 3
PAUSE_S = 0.2
REDUCING_S = 600.0
THOROUGH_EVERY = 20
"""Models between two that all oracles judge."""


class Row(NamedTuple):
    """The result for a fault. `models`: how many until it was found, 0 if it was not."""

    fault: Fault
    models: int
    oracle: str
    nodes: int
    seconds: float
    text: str = ""


def choose(faults: Sequence[Fault], count: int, seed: int) -> list[Fault]:
    """Choose faults by a seed, the same number of each kind as far as there are enough."""
    rng = Random(seed)
    by_kind = {kind: rng.sample(own, len(own)) for kind in KINDS if (own := [one for one in faults if one.kind == kind])}
    chosen: list[Fault] = []
    while len(chosen) < count and any(by_kind.values()):
        for own in by_kind.values():
            if own and len(chosen) < count:
                chosen.append(own.pop())
    return chosen


class Trial:
    """A fault in the copy of the sources at `copy`. `clean` judges with the sources as they are."""

    def __init__(self, fault: Fault, copy: Path, models: int, seed: int, clean: Worker) -> None:
        self.fault, self._copy, self._models, self._seed, self._clean = fault, copy, models, seed, clean
        self._folder = copy.parent / f"{copy.name}-failures"
        self._journal = self._folder / "journal.jsonl"

    def row(self) -> Row:
        """Plant the fault, look for it, and restore the file."""
        began = time.monotonic()
        shutil.rmtree(self._folder, ignore_errors=True)
        former = self.fault.plant(self._copy)
        try:
            entry = self._search()
            if entry is None:
                return Row(self.fault, 0, "", 0, time.monotonic() - began)
            oracle, text = entry["differences"][0]
            nodes = self._reduced(self._saved(entry))
        finally:
            (self._copy / self.fault.file).write_text(former, encoding="utf-8")
        return Row(self.fault, entry["number"] + 1, oracle, nodes, time.monotonic() - began, " ".join(text.split())[:120])

    def _search(self) -> dict[str, Any] | None:
        """Follow a run until a model fails that the sources without the fault pass. Returns its entry of the journal.

        Raises SystemExit if the run breaks off.
        """
        seen = 0
        with self._start(*self._generate()) as process:
            try:
                while True:
                    ended = process.poll() is not None
                    entries = self._entries()
                    for entry in entries[seen:]:
                        if entry["status"] == DIFFERENT and self._passes(self._saved(entry)):
                            return entry
                    seen = len(entries)
                    if ended:
                        if process.returncode not in (0, 1):
                            raise SystemExit(f"{self.fault.name}: the run ended with status {process.returncode}")
                        return None
                    time.sleep(PAUSE_S)
            finally:
                process.terminate()

    def _saved(self, entry: dict[str, Any]) -> Path:
        [folder] = self._folder.glob(f"{entry['number']:06}-*")
        return folder

    def _passes(self, folder: Path) -> bool:
        model, feeds = saved.load(folder)
        verdict: Verdict = self._clean.verdict(Task(0, model.SerializeToString(), feeds))
        return verdict.status != DIFFERENT

    def _generate(self) -> list[str]:
        steering = [("--operators", self.fault.operators), ("--transforms", self.fault.transforms)]
        chosen = [word for option, names in steering if names for word in (option, ",".join(names))]
        files = ["--journal", str(self._journal), "--failures", str(self._folder)]
        counts = ["--models", str(self._models), "--seed", str(self._seed), "--jobs", "1"]
        return [*counts, *chosen, *files, "--no-reduce", "--thorough-every", str(THOROUGH_EVERY)]

    def _reduced(self, folder: Path) -> int:
        """Reduce a failure with the fault, and count the nodes."""
        with self._start("--repeat", str(folder)) as process:
            process.wait(REDUCING_S)
        path = folder / REDUCED / "model.onnx"
        if not path.exists():
            return -1
        model = onnx.load(path)
        return _nodes(model.graph) + sum(len(one.node) for one in model.functions)

    def _entries(self) -> list[dict[str, Any]]:
        if not self._journal.exists():
            return []
        whole, _, _ = self._journal.read_text(encoding="utf-8").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()[1:]]

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        own = [str(self._copy / name) for name in ("", "transforms", "providers")]
        paths = os.pathsep.join([*own, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "tests.generated", *words]
        quiet = subprocess.DEVNULL
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.Popen(command, cwd=self._copy, env=environment, stdout=quiet, stderr=quiet)


def _nodes(graph: onnx.GraphProto) -> int:
    """The nodes of a graph, those of bodies included."""
    inner = sum(_nodes(attribute.g) for node in graph.node for attribute in node.attribute if attribute.HasField("g"))
    return len(graph.node) + inner


def copy_sources(folder: Path) -> None:
    """Copy what a run needs; kernels are shared, since their keys depend on the sources."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def rows(faults: Sequence[Fault], models: int, seed: int, folder: Path) -> Iterator[Row]:
    copy_sources(folder)
    clean = Worker()
    try:
        for fault in faults:
            yield Trial(fault, folder, models, seed, clean).row()
    finally:
        clean.stop()


def line(row: Row) -> str:
    """A row of the table."""
    found = f"{row.models} | {row.oracle} | {row.nodes}" if row.models else "not found | |"
    return f"| {row.fault.name} | {row.fault.kind} | {found} | {row.seconds:.0f} | {row.text.replace('|', '/')} |"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.generated.plant", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="chooses the faults, and the models (default: 0)")
    parser.add_argument("--faults", type=int, default=30, help="number of faults (default: 30)")
    parser.add_argument("--models", type=int, default=2000, help="models to look for a fault in (default: 2000)")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="all faults whose name contains the text, instead of a choice"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"folder of the copy (default: {FOLDER})")
    arguments = parser.parse_args()
    named = [one for one in catalogue() if arguments.only and arguments.only in one.name]
    faults = named or choose(catalogue(), arguments.faults, arguments.seed)
    missed = 0
    sys.stdout.write(
        "| fault | kind | models | oracle | nodes | seconds | difference |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    )
    for row in rows(faults, arguments.models, arguments.seed, arguments.folder.resolve()):
        missed += not 0 <= row.nodes <= MOST_NODES or not row.models
        sys.stdout.write(line(row) + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(faults) - missed} of {len(faults)} faults found and reduced\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
