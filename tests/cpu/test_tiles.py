"""Tiles (AMX) in processes: those that are refused them, those that are forked, and threads compute what this process does."""

import subprocess
import sys

import pytest

from ort_lite.native.cpu import host
from tests.processes import child

SCRIPT = """
import ctypes, hashlib, os, sys, threading
import numpy as np
import onnx.parser
from onnx import numpy_helper
import ort_lite
from ort_lite.native import cpu, x86

def session():
    model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g
        (uint8[M, 700] a, int8[M, 700] s, float[M, 700] f) => (int32[M, 65] x, int32[M, 65] y, float[M, 65] z)
        { x = MatMulInteger(a, b)  y = MatMulInteger(s, b)  z = com.microsoft.DynamicQuantizeMatMul(f, b, scale) }''')
    b = np.random.default_rng(0).integers(-128, 128, (700, 65)).astype(np.int8)
    model.graph.initializer.extend([numpy_helper.from_array(b, "b"), numpy_helper.from_array(np.float32(0.01), "scale")])
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 2
    return ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

def digest(session):
    a = np.random.default_rng(1).integers(0, 256, (70, 700)).astype(np.uint8)
    results = session.run(None, {"a": a, "s": a.view(np.int8), "f": a.astype(np.float32)})
    return hashlib.sha256(b"".join(np.ascontiguousarray(y).tobytes() for y in results)).hexdigest()
"""
"""A session of products, and a digest of its results."""
ANSWER = "print(cpu.host().has_tiles, digest(session()), flush=True)\n"
REFUSED = "x86.ask_for_tiles = lambda: False\n"
SMALL_STACK = """
class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

memory = ctypes.create_string_buffer(8192)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, len(memory))), None) == 0
assert not x86.ask_for_tiles()
"""
"""An alternate signal stack too small for the state of tiles: Linux refuses them until all such stacks are larger."""
FORKED = """
made = session()
print(cpu.host().has_tiles, digest(made), flush=True)
if os.fork() == 0:
    print(cpu.host().has_tiles, digest(session()), flush=True)
    os._exit(0)
assert os.wait()[1] == 0
"""
THREADS = """
made, found = session(), []
threads = [threading.Thread(target=lambda: found.extend(digest(made) for _ in range(50))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 200
for one in set(found):
    print(cpu.host().has_tiles, one, flush=True)
"""
CANCELLED = """
from ort_lite.errors import OrtLiteError
from ort_lite.native.mapping import executable

# mov ecx, 1; xgetbv; ret: the parts of the state that are in use in this thread. Bits 17 and 18 are those of tiles.
in_use = ctypes.CFUNCTYPE(ctypes.c_uint32)(executable(bytes.fromhex("b901000000 0f01d0 c3")))
options = ort_lite.SessionOptions()
options.intra_op_num_threads = 1
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21]> g (uint8[M, 4096] a, int8[4096, N] b) => (int32[M, N] y)
    { y = MatMulInteger(a, b) }''')
made = ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
feeds, states = {"a": np.zeros((16384, 4096), np.uint8), "b": np.zeros((4096, 4096), np.int8)}, []
for wait in (0.03, 0.06, 0.09, 0.12):
    control = ort_lite.RunOptions()
    timer = threading.Timer(wait, lambda: setattr(control, "terminate", True))
    timer.start()
    try:
        made.run(None, feeds, control)
        states.append("whole")
    except OrtLiteError:
        states.append(in_use() >> 17 & 3)
    timer.join()
print(states, flush=True)
"""
"""A product of 500 Gops that is cancelled, and which parts of the state of tiles are in use then."""
needs_tiles = pytest.mark.skipif(not host().has_tiles, reason="this machine has no tiles")


def answers(*parts: str) -> list[list[str]]:
    """Return whether a new process has tiles and the digest of its results, line by line."""
    with child([sys.executable, "-c", "".join([SCRIPT, *parts])], stdout=subprocess.PIPE) as process:
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    return [line.split() for line in text.splitlines()]


@needs_tiles
@pytest.mark.parametrize("refusal", [REFUSED, SMALL_STACK], ids=["by ort-lite", "by Linux"])
def test_a_process_that_is_refused_tiles_computes_the_same(refusal: str) -> None:
    [[has, expected]] = answers(ANSWER)
    assert has == "True"
    assert answers(refusal, ANSWER) == [["False", expected]]


def test_forked_children_and_threads_compute_the_same() -> None:
    expected = answers(ANSWER)
    assert answers(FORKED) == expected * 2
    assert answers(THREADS) == expected


@needs_tiles
def test_a_thread_whose_run_was_cancelled_uses_no_tiles() -> None:
    """A kernel is left by a signal, whose handler the system starts with a clear state."""
    with child([sys.executable, "-c", f"{SCRIPT}{CANCELLED}"], stdout=subprocess.PIPE) as process:
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    assert text.strip() == "[0, 0, 0, 0]"
