"""The compiling process: the other end of `workers.py`. Run as `python -m ort_lite.native.serve`."""

import os
import pickle
import signal
import threading
from typing import Any

from ort_lite.errors import KernelCompileError
from ort_lite.native.compiler import compile_object
from ort_lite.native.cpu import Target
from ort_lite.native.spec import Spec, key_of, symbol_of
from ort_lite.native.workers import receive, send

IDLE_SECONDS = 10.0


def serve() -> None:
    """Answers the requests of `workers.py` until their stream ends, or for IDLE_SECONDS none comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for the answer
    requests, answers = os.fdopen(0, "rb", closefd=False), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an imported module prints must not end up among the answers
    while True:
        idle = threading.Timer(IDLE_SECONDS, os._exit, (0,))
        idle.daemon = True
        idle.start()
        try:
            key, request, target = receive(requests)
        except EOFError:
            return
        finally:
            idle.cancel()
        try:
            answer: tuple[str, Any] = _answer(key, pickle.loads(request), target)
        except KernelCompileError as error:
            answer = ("error", str(error))
        except Exception as error:  # noqa: BLE001  whatever keeps this process from importing what the other one has
            answer = ("elsewhere", repr(error))
        try:
            send(answers, answer)
        except OSError:  # nobody waits any more
            return


def _answer(key: str, spec: Spec, target: Target) -> tuple[str, Any]:
    if key_of(spec, target) != key:
        return "elsewhere", "a source file has changed since the other process imported it"
    return "object", compile_object(spec, target, symbol_of(key))


if __name__ == "__main__":
    serve()
