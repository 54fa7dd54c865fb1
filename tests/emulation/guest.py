"""The emulated side: runs models that the other side sends, as `python guest.py COMPILER`. Imports ort_lite and NumPy alone.

COMPILER takes the place of `sys.executable`, which ort_lite starts to compile kernels: emulated, Numba takes minutes. "" means that
nothing is compiled: kernels come from a pack, and generic ones stand for fused loops that it lacks.
"""

import os
import sys
import time
import traceback
from typing import Any

import ort_lite
from ort_lite.native.workers import receive, send


def main() -> None:
    """Answers (model, feeds of each run, level, threads, rounding) with (outputs of each run or what was raised, seconds)."""
    sys.executable = sys.argv[1]
    requests, answers = os.fdopen(0, "rb", closefd=False), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = receive(requests)
        except EOFError:
            return
        began = time.monotonic()
        try:
            found: Any = _run(*request)
        except Exception:  # noqa: BLE001  whatever it is, the other side shows it
            found = traceback.format_exc()
        if "numba" in sys.modules:
            found = "a kernel was compiled in the emulated process: the two Pythons make different keys"
        send(answers, (found, time.monotonic() - began))


def _run(model: bytes, runs: list[dict[str, Any]], level: int, threads: int, rounding: str) -> list[Any]:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel(level)
    options.intra_op_num_threads = threads
    options.add_session_config_entry("ort_lite.round_16_bit", rounding)
    if not sys.executable:
        options.add_session_config_entry("ort_lite.compile", "never")
    session = ort_lite.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [session.run(None, feeds) for feeds in runs]


if __name__ == "__main__":
    main()
