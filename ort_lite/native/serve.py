"""The compiling process, the counterpart of `workers.py`. Run as `python -m ort_lite.native.serve`."""

import functools
import gc
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any

from ort_lite.errors import KernelCompileError, describe
from ort_lite.native import cache
from ort_lite.native.compile_claims import CompileClaims
from ort_lite.native.cpu import Target
from ort_lite.native.siblings import fork
from ort_lite.native.spec import Spec, key_of, symbol_of
from ort_lite.native.workers import MOST_WORKERS, cores, receive, send

IDLE_SECONDS = 10.0
GARBAGE = 50_000
"""The number of new objects between two garbage collections.

With the default, 700, collecting takes a twelfth of the compile time. This number costs 10 MB of memory.
"""


def serve(output: int) -> None:
    """Answer the requests of `workers.py` until their stream ends, or until none arrives for IDLE_SECONDS."""
    requests, answers = os.fdopen(0, "rb", closefd=False), os.fdopen(output, "wb")
    while True:
        idle = threading.Timer(IDLE_SECONDS, os._exit, (0,))
        idle.daemon = True
        with suppress(RuntimeError):  # no thread: this process ends with its parent
            idle.start()
        try:
            key, request, target, *rest = receive(requests)
        except EOFError:
            return
        finally:
            idle.cancel()
        try:
            answer: tuple[str, Any] = _ahead(request, target, *rest) if rest else _answer(key, pickle.loads(request), target)
        except KernelCompileError as error:
            answer = ("error", describe(error))
        except Exception as error:  # noqa: BLE001  anything that keeps this process from importing the same code
            answer = ("elsewhere", repr(error))
        try:
            send(answers, answer)
        except OSError:  # nothing waits for the answer any more
            return


def _answer(key: str, spec: Spec, target: Target) -> tuple[str, Any]:
    if key_of(spec, target) != key:
        return "elsewhere", "a source file has changed since the other process imported it"
    return "object", _compiler()(spec, target, symbol_of(key))


@functools.cache
def _compiler() -> Callable[[Spec, Target, str], bytes]:
    """Import numba, only after claiming what is compiled ahead."""
    from ort_lite.native.compiler import compile_object

    gc.freeze()  # imported objects are never freed
    return compile_object


def _ahead(requests: list[tuple[str, bytes]], target: Target, folder: str) -> tuple[str, Any]:
    """Compile into the cache what no other process compiles: see `workers.compile_ahead`."""
    claims = CompileClaims(folder)
    try:
        if claims.take_place(min(cores(), MOST_WORKERS)) is None:
            return "ahead", None  # other processes are compiling, and will get to it
        for key, request in requests:
            if claims.take(key):
                if cache.read(folder, key) is None:
                    kind, data = _answer(key, pickle.loads(request), target)
                    if kind == "object":
                        cache.write(folder, key, data)
                claims.give(key)
            claims.wait(compiling=True)
    finally:
        claims.close()
    return "ahead", None


def with_room(function: Callable[[], None]) -> None:
    """Call a function in a frame that requires more than half a megabyte, which Python allocates as a single chunk.

    Python takes frames from chunks of 16 KB, and allocates and frees one for every call that crosses the end of a chunk. Deep
    inside numba, that makes loops a third slower. The rest of the large chunk holds all frames of a compilation.
    """
    asking = _call.__code__.replace(co_stacksize=(1 << 19) // 8 + 64)
    FunctionType(asking, globals())(function)


def _call(function: Callable[[], None]) -> None:
    function()


def main() -> None:
    """Run `serve` in this process, and in a fork for each pair of descriptors on the command line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the answer handles Ctrl-C
    gc.set_threshold(GARBAGE, 20, 100)
    output = os.dup(1)
    os.dup2(2, 1)  # output of imported modules must not mix with the answers
    numbers = list(map(int, sys.argv[1:]))
    if numbers:
        with suppress(Exception):  # compiling will report it
            _compiler()
        output = fork(output, list(zip(numbers[::2], numbers[1::2], strict=True)))
    with_room(functools.partial(serve, output))


if __name__ == "__main__":
    main()
    os._exit(0)  # the parent waits for this process when it ends, and numba's cleanup takes 0.2 s
