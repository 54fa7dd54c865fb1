"""Wheels in a fresh environment that has no compiler: from the start of a process to the first result, beside onnxruntime."""

import math
import os
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.emulation.work import Work, models

RUNS = 7
PACKAGES = ("numpy", "onnx", "ml_dtypes", "pluggy", "rich", "onnxruntime")
"""What ort-lite needs beside a compiler, and the rival."""

_CHILD = """
import time; start = time.perf_counter()
import sys
import numpy as np
import {module} as runtime
options = runtime.SessionOptions(); options.intra_op_num_threads = 1
session = runtime.InferenceSession({model!r}, options, providers=["CPUExecutionProvider"])
results = session.run(None, dict(np.load({feeds!r})))
print(time.perf_counter() - start)
assert not {{"numba", "llvmlite"}} & sys.modules.keys()
np.savez({results!r}, *results)
"""


def check(wheels: Sequence[Path], times: float = math.inf) -> bool:
    """Prints a line a model. True if results are onnxruntime's, in at most `times` its time, and nothing was compiled."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = _installed(folder / "environment", wheels)
        verdicts = [_compared(python, folder, one, times) for one in models()]
    return all(verdicts)


def _installed(folder: Path, wheels: Sequence[Path]) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *PACKAGES], check=True, timeout=1800)
    subprocess.run([*install, "--no-deps", *map(str, wheels)], check=True, timeout=1800)
    compiler = subprocess.run([python, "-c", "import numba"], capture_output=True, check=False, timeout=1800)
    assert compiler.returncode, "the environment has a compiler"
    return python


def _compared(python: Path, folder: Path, work: Work, most: float) -> bool:
    model, feeds, cache = folder / f"{work.name}.onnx", folder / f"{work.name}.npz", folder / "cache"
    model.write_bytes(work.model)
    given: dict[str, Any] = work.runs[0]
    np.savez(feeds, **given)
    times: dict[str, list[float]] = {"ort_lite": [], "onnxruntime": []}
    for _ in range(RUNS + 1):
        for module, found in times.items():
            files = {"model": str(model), "feeds": str(feeds), "results": str(folder / f"{module}.npz")}
            found.append(_seconds(python, _CHILD.format(module=module, **files), cache))
    ours, theirs = (median(found[1:]) for found in times.values())
    results = [list(np.load(folder / f"{module}.npz").values()) for module in times]
    same = all(np.allclose(x, y, rtol=1e-3, atol=1e-3) for x, y in zip(*results, strict=True))
    verdicts = [
        ("", "other results")[not same],
        ("", "kernels were compiled")[cache.exists()],
        ("", "slow")[ours > most * theirs],
    ]
    print(f"{work.name}: ort-lite {ours:.3f} s, onnxruntime {theirs:.3f} s, {ours / theirs:.2f} times", *verdicts, flush=True)
    return not any(verdicts)


def _seconds(python: Path, code: str, cache: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": "", "ORT_LITE_CACHE_DIR": str(cache)}
    command = [str(python), "-c", code]  # not where sources are, which Python would take from the folder that it is started in
    return float(
        subprocess.run(command, cwd=cache.parent, env=environment, stdout=subprocess.PIPE, check=True, timeout=1800).stdout
    )
