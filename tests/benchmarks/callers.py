"""Runs at once from two Python threads: throughput of two callers of one session over that of one, and onnxruntime's beside it.

    python -m tests.benchmarks.callers [NAME...]

Sessions have one intra-op thread. What the callers wait for is the GIL: two callers reach twice the throughput of one where all time
is spent in native code.
"""

import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

import ort_lite
from ort_lite.tools.cli.benchmark.interleaved_runs import Run
from tests.benchmarks.bench_chain import chain
from tests.benchmarks.bench_conv import layer
from tests.benchmarks.pairs import model_of
from tests.benchmarks.rows import ATTENTION, CHAIN, CONVOLUTIONS, HEADER, LSTM, MLP, Row, row, weighted

SECONDS, ROUNDS = 0.12, 5
LOOP = (
    HEADER
    + """(float[64,128] x) => (float[1,128] last, float[64,128] y) <float[128,128] w, float[1,128] start> {
    last, y = Scan(start, x) <num_scan_inputs = 1, body = b (float[1,128] s, float[128] r) => (float[1,128] t, float[128] o) {
        p = MatMul(s, w)  q = Add(p, r)  t = Tanh(q)  zero = Constant<value_ints = [0]>()  o = Squeeze(t, zero)
    }>
}"""
)
QUANTIZED = (
    HEADER
    + """(float[64,256] x) => (float[64,256] y) <float[256,256] w, float s = {0.05}, float o = {0.02}, uint8 z = {128}, int8 n = {0}> {
    a0 = QuantizeLinear(x, s, z)  a = DequantizeLinear(a0, s, z)  w0 = QuantizeLinear(w, o, n)  w1 = DequantizeLinear(w0, o, n)
    b = MatMul(a, w1)  c = QuantizeLinear(b, s, z)  y = DequantizeLinear(c, s, z) }"""
)


def rows() -> Iterator[Row]:
    """A model of each kind."""
    size, channels = CONVOLUTIONS["conv 3x3, 256 at 14"]
    yield row("MLP of one row", weighted(MLP))
    yield row(
        "conv 3x3, 256 at 14", model_of([layer(channels, channels, 3, 1, 1)], np.zeros((1, channels, size, size), np.float32))
    )
    yield row("150 tiny nodes", chain(150))
    yield row("elementwise chain (64, 4096)", weighted(CHAIN))
    yield row("attention block, 12 heads, 128 x 384", weighted(ATTENTION))
    yield row("LSTM, 64 steps of 128", weighted(LSTM))
    yield row("Scan, 64 steps of 128", weighted(LOOP))
    yield row("quantised MatMul, 64 x 256 x 256", weighted(QUANTIZED))


def throughput(run: Run, callers: int) -> float:
    """Runs a second of so many threads, which begin together."""
    counts, ready = [0] * callers, threading.Barrier(callers)
    spans = [0.0] * callers

    def work(index: int) -> None:
        run()
        ready.wait()
        begin = now = time.perf_counter()
        while now < begin + SECONDS:
            run()
            counts[index] += 1
            now = time.perf_counter()
        spans[index] = now - begin

    threads = [threading.Thread(target=work, args=(k,)) for k in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(count / span for count, span in zip(counts, spans, strict=True))


def session_of(runtime: Any, model: bytes) -> Any:
    """With one thread a run."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def measured(each: Row) -> str:
    """A line: for each runtime microseconds of a run of one caller, and how many times the throughput two have. Best of some rounds."""
    cells = []
    for runtime in (ort_lite, onnxruntime):
        run = partial(session_of(runtime, each.model).run, None, each.feeds)
        best = {callers: max(throughput(run, callers) for _ in range(ROUNDS)) for callers in (1, 2)}
        cells.append(f"{1e6 / best[1]:9.1f} us x {best[2] / best[1]:.2f}")
    return f"{each.name:38} ort_lite {cells[0]}   onnxruntime {cells[1]}"


def main(names: list[str]) -> None:
    for each in rows():
        if not names or any(name in each.name for name in names):
            print(measured(each), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
