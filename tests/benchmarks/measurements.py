"""Measurements to test the performance record and its pages with."""

from typing import Any

from tests.benchmarks.record import Measurement


def measured(name: str = "GEMM 512", threads: int = 1, ratio: float | None = 2.0, **fields: Any) -> Measurement:
    """A model, in float32 on a CPU called Alpha against onnxruntime unless `fields` say otherwise."""
    times = {} if ratio is None else {"ours": 1e-3, "theirs": round(ratio * 1e-3, 7)}
    usual = {"kind": "model", "cpu": "Alpha", "rival": "onnxruntime", "version": "0.1.0", "dtype": "float32", "noise": 1.0}
    return Measurement(**{**usual, "differs": ratio is None, **times, **fields}, name=name, threads=threads, ratio=ratio)


def operator(name: str, *shapes: str, **fields: Any) -> Measurement:
    return measured(name, **{"kind": "operator", "shapes": shapes, **fields})
