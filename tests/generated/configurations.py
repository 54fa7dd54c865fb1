"""ort-lite in other configurations, which must give the results of the plain session within rounding."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch
from zlib import crc32

import ort_lite
from ort_lite.native.cpu import host, parse_target
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.generic import UnfusedOptions
from tests.generated.oracles import Answer, Feeds, session

CPU = "CPUExecutionProvider"
TARGETS = ("x86-64", "x86-64-v3", "aarch64")
"""Each model runs on one of those that run here."""


def configurations(contents: bytes, feeds: Feeds) -> Iterator[tuple[str, Answer]]:
    """Run a model in each configuration; yield names and results, or errors."""
    for name, run in (
        ("ORT_DISABLE_ALL", lambda: session(contents, ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, feeds)),
        ("3 threads", lambda: session(contents, threads=3).run(None, feeds)),
        ("generic kernels", lambda: _generic(contents, feeds)),
        ("other target", lambda: _on_target(contents, feeds)),
        ("accelerator", lambda: _with_provider("ort_lite_accelerator", "AcceleratorExecutionProvider", contents, feeds)),
        ("sample provider", lambda: _with_provider("ort_lite_sample", "SampleExecutionProvider", contents, feeds)),
        ("saved and loaded", lambda: _saved(contents, feeds)),
        ("optimized, saved and loaded", lambda: _optimized(contents, feeds)),
    ):
        yield name, _attempt(run)


def _attempt(run: Callable[[], list[Any]]) -> Answer:
    """The results, or the error. There is no time limit, since kernels may be compiled."""
    ort_lite.set_seed(1)
    try:
        return run()
    except Exception as error:  # noqa: BLE001  reported as a difference
        return f"{type(error).__name__}: {error}"


def _generic(contents: bytes, feeds: Feeds) -> list[Any]:
    """No fused loop: kernels that serve all models, as where nothing may be compiled."""
    with patch.object(CPUOptions, "kernels", UnfusedOptions.kernels):
        return session(contents).run(None, feeds)


def _on_target(contents: bytes, feeds: Feeds) -> list[Any]:
    able = [name for name in TARGETS if parse_target(name).runs_on(host()) and parse_target(name).features != host().features]
    target = able[crc32(contents) % len(able)] if able else "host"
    return session(contents, providers=[(CPU, {"target": target})]).run(None, feeds)


def _with_provider(module: str, name: str, contents: bytes, feeds: Feeds) -> list[Any]:
    provider = getattr(__import__(module), name)
    return session(contents, providers=[provider, CPU], log_severity_level=4).run(None, feeds)


def _saved(contents: bytes, feeds: Feeds) -> list[Any]:
    """The model read and written by ort-lite."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved.onnx")
        ort_lite.save(ort_lite.load(contents), path)
        with open(path, "rb") as file:
            return session(file.read()).run(None, feeds)


def _optimized(contents: bytes, feeds: Feeds) -> list[Any]:
    """The model that a session writes after its transforms."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "optimized.onnx")
        session(contents, optimized_model_filepath=path)
        with open(path, "rb") as file:
            return session(file.read()).run(None, feeds)
