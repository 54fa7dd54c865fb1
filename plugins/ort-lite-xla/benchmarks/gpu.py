"""Measure networks on one device: ort-lite with this provider, PyTorch, and `jax.jit` of the same computation as the limit.

In plugins/ort-lite-xla, with the repository's root on PYTHONPATH:

    python -m benchmarks.gpu [--device gpu] [--small] [--seconds 2] [--only NAME,NAME] [--ways NAME,NAME] [--models FOLDER]

Prints a row for each network, precision and way to run it:
first: seconds until the first result, including compilation;
host: milliseconds from NumPy arrays to NumPy arrays, the median of many runs;
device: milliseconds from arrays on the device to arrays on the device, including the wait for the result;
error: the distance from `jax.jit` in float32, divided by the magnitude of that result.

In float32, operands of products keep all their bits; in tf32, the device may round them to 11 bits; in bfloat16, everything
is computed in that type. Without PyTorch or JAX, their rows are left out. For decoders, one run is one token, and each way keeps
the caches where it can: on the device, or, for ort-lite, in NumPy arrays.

The networks have random weights. With --models, it measures exported models instead, each in a folder of FOLDER with
`model.onnx` and its inputs, `feeds.npz`; `python -m tests.benchmarks.zoo build FOLDER` makes such folders.
"""

import argparse
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from benchmarks.architectures import bert, qwen2, resnet50
from benchmarks.exported import ways_of_file
from benchmarks.ways import PRECISIONS, Way, jax_device, ways

from ort_lite.dtypes import Array

COLUMNS = f"{'network':22} {'precision':9} {'way':14} {'first s':>8} {'host ms':>9} {'device ms':>9} {'error':>8}"
EXPORTED = ("minilm_l6", "bert_base", "resnet50_fp16", "qwen2_4l_fp32", "qwen2_4l_int4")
"""The folders of models that are measured by default."""

Network = tuple[str, Mapping[str, Way]]
"""A name, and the ways to run it."""


def networks(small: bool) -> Iterator[Callable[[], Network]]:
    """Yield functions that build the networks, one at a time because each needs much memory."""

    def builder(make: Callable[..., Any], *sizes: Any) -> Callable[[], Network]:
        def build() -> Network:
            network = make(*sizes)
            return network.name, ways(network)

        return build

    if small:
        yield builder(bert, "BERT tiny 2x16", 2, 64, 4, 2, 16, True)
        yield builder(resnet50, 1, 64)
        yield builder(qwen2, "Qwen2 tiny", 2, 64, 4, 2, 96, 500, 32)
        return
    for batch in (1, 32):
        yield builder(bert, f"MiniLM-L6 {batch}x128", 6, 384, 12, batch, 128, True)
    for batch in (1, 32):
        yield builder(bert, f"BERT-base {batch}x128", 12, 768, 12, batch, 128, False)
    for batch in (1, 32):
        yield builder(resnet50, batch)
    yield builder(qwen2, "Qwen2 4 layers", 4, 896, 14, 2, 4864, 32768, 512)
    yield builder(qwen2, "Qwen2-0.5B 32k words", 24, 896, 14, 2, 4864, 32768, 512)


def exports(folder: Path, names: Sequence[str]) -> Iterator[Callable[[], Network]]:
    """Yield functions that open the models of a folder, in the precision in which they are."""
    for name in names:
        if (folder / name / "model.onnx").is_file():
            yield partial(_open, folder / name)


def _open(folder: Path) -> Network:
    return folder.name, ways_of_file(folder)


def measure(run: Callable[[], Any] | None, seconds: float) -> str:
    """Return the median milliseconds of 5 to 500 runs in about `seconds`, after three warm-up runs; "-" without a run."""
    if run is None:
        return "-"
    found: list[float] = []
    for _ in range(3):
        run()
    stop = perf_counter() + seconds
    while len(found) < 5 or (len(found) < 500 and perf_counter() < stop):
        begin = perf_counter()
        run()
        found.append(perf_counter() - begin)
    return f"{median(found) * 1e3:.3f}"


@contextmanager
def row(*cells: str) -> Iterator[list[str]]:
    """Collect the cells of a row, and print it even if an error occurs."""
    found: list[str] = []
    try:
        yield found
    except Exception as error:  # noqa: BLE001  # a way that fails costs its row alone
        found.append(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    print(f"{cells[0]:22} {cells[1]:9} {cells[2]:14} " + " ".join(f"{cell:>9}" for cell in found), flush=True)


def compare(network: Network, chosen: Sequence[str], precisions: Sequence[str], device: str, seconds: float) -> None:
    """Measure a network in all precisions and ways, and print a row for each."""
    name, found = network
    expected: Array | None = None
    for precision in precisions:
        for way, prepare in found.items():
            if way not in chosen:
                continue
            with row(name, precision, way) as cells:
                begin = perf_counter()
                host, inside = prepare(precision, device)
                result = host().astype(np.float64)
                cells.append(f"{perf_counter() - begin:.1f}")
                expected = result if (precision, way) == ("float32", "jax.jit") else expected
                cells += [measure(host, seconds), measure(inside, seconds)]
                cells.append("-" if expected is None else f"{np.linalg.norm(result - expected) / np.linalg.norm(expected):.1e}")


def card(device: str) -> str:
    """Return the device's name and the versions of JAX and PyTorch."""
    name, versions = "unknown", list[str]()
    if find_spec("jax"):
        import jax

        name, versions = jax_device(device).device_kind, [f"jax {jax.__version__}"]
    if find_spec("torch"):
        import torch

        versions.append(f"torch {torch.__version__}")
    return f"{device}: {name} ({platform.machine()}), {', '.join(versions)}"


WAYS = ("jax.jit", "ort-lite", "torch eager", "torch.compile")


def main() -> None:
    """Measure the networks that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the script")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--only", default="", help="networks whose names begin so")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--precisions", default="")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="exported models, each in a folder of this one")
    given = parser.parse_args()
    only, every = given.only.split(","), given.models is not None
    source = exports(given.models, [name for name in only if name] or EXPORTED) if every else networks(given.small)
    precisions = given.precisions or ("float32,tf32" if every else ",".join(PRECISIONS))
    print(card(given.device), COLUMNS, sep="\n", flush=True)
    for make in source:
        network = make()
        if every or network[0].startswith(tuple(only)):
            compare(network, given.ways.split(","), precisions.split(","), given.device, given.seconds)


if __name__ == "__main__":
    main()
