"""Kernels that show who ran what: for the tests and the benchmark of the team and of the program loop."""

from ort_lite.native.lang import OK, Ptr, failed, native, span
from ort_lite_cpu.atomics import call, fetch_add, get, pause, put

TOO_FEW = 7  # status code of `meet`


@native
def work(y: Ptr, rounds: int, part: int, parts: int) -> int:
    """Rounds of dependent arithmetic, shared by the parts; each writes a cache line of its own."""
    x = y[8 * part]
    for _ in range(rounds // parts):
        x = (x ^ (x >> 7)) * 25214 & 0xFFFFFFFFFFFF
    y[8 * part] = x
    return OK


@native
def blend(x: Ptr, y: Ptr, n: int, part: int, parts: int) -> int:
    """y[i] += 3 x[i] + x[i + 1 mod n] (mod 2**32): shows a part that runs twice, never, or before what it reads."""
    for i in span(n, part, parts):
        after = i + 1 if i + 1 < n else 0
        y[i] = (y[i] + 3 * x[i] + x[after]) & 0xFFFFFFFF
    return OK


@native
def log(y: Ptr, mark: int, part: int, parts: int) -> int:
    """Appends mark, part, parts to y, whose first element counts the appended ones."""
    end = y[0]
    y[end + 1] = mark
    y[end + 2] = part
    y[end + 3] = parts
    y[0] = end + 3
    return OK


@native
def fail(code: int, first: int, step: int, part: int, parts: int) -> int:
    """Parts first, first + step, ... fail with `code` and their number."""
    if part >= first and (part - first) % step == 0:
        return failed(code, part)
    return OK


@native
def write(word: int, value: int, part: int, parts: int) -> int:
    """Writes a word, atomically."""
    put(word, value)
    return OK


@native
def wait(word: int, part: int, parts: int) -> int:
    """Until the word is not 0."""
    while get(word) == 0:
        pause()
    return OK


@native
def meet(word: int, patience: int, part: int, parts: int) -> int:
    """Each part waits until all parts are running: several threads are at work. Fails after `patience` pauses."""
    fetch_add(word, 1)
    while get(word) % parts != 0:
        pause()
        patience -= 1
        if patience < 0:
            return failed(TOO_FEW)
    return OK


@native
def who(y: Ptr, syscall: int, gettid: int, pauses: int, part: int, parts: int) -> int:
    """y[part] = id of the thread that runs the part, after some time."""
    for _ in range(pauses):
        pause()
    y[part] = call(syscall, gettid)
    return OK
