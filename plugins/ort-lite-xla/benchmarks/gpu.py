"""Measure networks on one device: ort-lite with this provider, PyTorch, and `jax.jit` of the same computation as the limit.

In plugins/ort-lite-xla, with the repository's root on PYTHONPATH:

    python -m benchmarks.gpu [--device gpu] [--small] [--seconds 2] [--only NAME,NAME] [--ways NAME,NAME]

Prints a row for each network, precision and way to run it:
first: seconds until the first result, including compilation;
host: milliseconds from NumPy arrays to NumPy arrays, the median of many runs;
device: milliseconds from arrays on the device to arrays on the device, including the wait for the result;
error: the distance from `jax.jit` in float32, divided by the magnitude of that result.

In float32, operands of products keep all their bits; in tf32, the device may round them to 11 bits; in bfloat16, everything
is computed in that type. Without PyTorch, its rows are left out. For the decoder, one run is one token, and each way keeps
the caches
where it can: on the device, or, for ort-lite, in NumPy arrays.
"""

import argparse
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from benchmarks.architectures import Architecture, bert, qwen2, resnet50
from benchmarks.backends import Jax, Onnx, Torch
from onnx import TensorProto

import ort_lite
from ort_lite.dtypes import Array

PRECISIONS = {"float32": "highest", "tf32": "default", "bfloat16": "highest"}
"""Precision -> JAX's name for the precision of products."""
COLUMNS = f"{'network':22} {'precision':9} {'way':14} {'first s':>8} {'host ms':>9} {'device ms':>9} {'error':>8}"

Runs = tuple[Callable[[], Any], Callable[[], Any] | None]
"""A run from host to host, which gives the first output, and one on the device."""


class Way(NamedTuple):
    """A way to run a network. `prepare(network, precision, device)` returns its Runs."""

    name: str
    prepare: Callable[[Architecture, str, str], Runs]


def networks(small: bool) -> Iterator[Callable[[], Architecture]]:
    """Yield functions that build the networks, one at a time because each needs much memory."""
    if small:
        yield partial(bert, "BERT tiny 2x16", 2, 64, 4, 2, 16, True)
        yield partial(resnet50, 1, 64)
        yield partial(qwen2, "Qwen2 tiny", 2, 64, 4, 2, 96, 500, 32)
        return
    for batch in (1, 32):
        yield partial(bert, f"MiniLM-L6 {batch}x128", 6, 384, 12, batch, 128, True)
    for batch in (1, 32):
        yield partial(bert, f"BERT-base {batch}x128", 12, 768, 12, batch, 128, False)
    for batch in (1, 32):
        yield partial(resnet50, batch)
    yield partial(qwen2, "Qwen2-0.5B 32k words", 24, 896, 14, 2, 4864, 32768, 512)


def element_type(precision: str) -> str:
    """Return the element type that a precision computes in."""
    return "bfloat16" if precision == "bfloat16" else "float32"


def convert_arrays(arrays: Mapping[str, Array], precision: str, chosen: Callable[[str], bool] = bool) -> dict[str, Array]:
    """Convert the chosen float32 arrays to the type of the computation."""
    to = np.dtype(ml_dtypes.bfloat16 if precision == "bfloat16" else np.float32)
    return {name: x.astype(to) if x.dtype == np.float32 and chosen(name) else x for name, x in arrays.items()}


def is_cache(name: str) -> bool:
    """Return True for the name of a cache."""
    return name.startswith("cache")


def through_ort_lite(network: Architecture, precision: str, device: str) -> Runs:
    """Prepare runs through an ort-lite session."""
    operations = Onnx(element_type(precision))
    operations.sizes = network.sizes
    weights, feeds = convert_arrays(network.weights, precision), convert_arrays(network.inputs, precision, is_cache)
    outputs = network.function(operations, {name: name for name in weights}, *network.inputs)
    caches = [name for name in feeds if is_cache(name)]
    first = TensorProto.INT64 if caches else TensorProto.FLOAT
    kinds = [(name, operations.type if k else first) for k, name in enumerate(outputs)]
    model = operations.model(weights, {name: (x.dtype, network.open[name]) for name, x in feeds.items()}, kinds)
    kind, _, number = device.partition(":")
    options = {"device": kind, "device_id": number or "0", "precision": "tf32" if precision == "tf32" else "float32"}
    session = ort_lite.InferenceSession(model, providers=[("XLAExecutionProvider", options), "CPUExecutionProvider"])
    assert len(session.explain().assignment.partitions) == 1, "the network is not one partition"

    def run() -> Array:
        found: list[Array] = session.run(None, feeds)
        feeds.update(zip(caches, found[1:], strict=True))
        return found[0]

    return run, None


def through_jax(network: Architecture, precision: str, device: str) -> Runs:
    """Prepare runs of a `jax.jit` function."""
    import jax

    place = jax.devices(device.partition(":")[0])[int(device.partition(":")[2] or 0)]
    weights = jax.device_put(convert_arrays(network.weights, precision), place)
    feeds = convert_arrays(network.inputs, precision, is_cache)
    names = [name for name in feeds if not is_cache(name)]
    caches = [jax.device_put(x, place) for name, x in feeds.items() if is_cache(name)]

    def function(weights: Any, fed: Any, caches: Any) -> Any:
        with jax.default_matmul_precision(PRECISIONS[precision]):
            return network.function(Jax(element_type(precision)), weights, *fed, *caches)

    compiled = jax.jit(function, donate_argnums=(2,))
    on_device = [jax.device_put(feeds[name], place) for name in names]

    def call(fed: Sequence[Any]) -> Any:
        result, *caches[:] = compiled(weights, fed, caches)
        return result

    return lambda: np.asarray(call([jax.device_put(feeds[name], place) for name in names])), (
        lambda: call(on_device).block_until_ready()
    )


def _torch(network: Architecture, precision: str, device: str, compile: bool) -> Runs:
    import torch

    kind, _, number = device.partition(":")
    place = torch.device(f"cuda:{number or 0}" if kind == "gpu" else kind)
    exact = precision != "tf32"
    torch.set_float32_matmul_precision("highest" if exact else "high")
    torch.backends.cudnn.allow_tf32 = not exact

    def tensor(x: Array, to: str) -> Any:
        moved = torch.from_numpy(x).to(place)
        return moved.to(getattr(torch, element_type(precision))) if x.dtype == np.float32 and to else moved

    weights = {name: tensor(x, "computed") for name, x in network.weights.items()}
    names = [name for name in network.inputs if not is_cache(name)]
    caches = [tensor(x, "computed") for name, x in network.inputs.items() if is_cache(name)]
    operations = Torch(element_type(precision))

    def function(*fed: Any) -> Any:
        return network.function(operations, weights, *fed, *caches)[0]

    called = torch.compile(function, mode="reduce-overhead") if compile and kind == "gpu" else function
    called = torch.compile(function) if compile and kind != "gpu" else called
    on_device = [tensor(network.inputs[name], "") for name in names]

    def host() -> Array:
        with torch.inference_mode():
            found: Array = called(*[tensor(network.inputs[name], "") for name in names]).cpu().numpy()
        return found

    def inside() -> None:
        with torch.inference_mode():
            called(*on_device)
        if kind == "gpu":
            torch.cuda.synchronize()

    return host, inside


def torch_eager(network: Architecture, precision: str, device: str) -> Runs:
    """Prepare runs in PyTorch's eager mode."""
    return _torch(network, precision, device, compile=False)


def torch_compile(network: Architecture, precision: str, device: str) -> Runs:
    """Prepare runs of `torch.compile`."""
    return _torch(network, precision, device, compile=True)


WAYS = (
    Way("jax.jit", through_jax),
    Way("ort-lite", through_ort_lite),
    Way("torch eager", torch_eager),
    Way("torch.compile", torch_compile),
)


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


def compare(network: Architecture, ways: Sequence[Way], precisions: Sequence[str], device: str, seconds: float) -> None:
    """Measure a network in all precisions and ways, and print a row for each."""
    expected: Array | None = None
    for precision in precisions:
        for way in ways:
            with row(network.name, precision, way.name) as cells:
                begin = perf_counter()
                host, inside = way.prepare(network, precision, device)
                result = host().astype(np.float64)
                cells.append(f"{perf_counter() - begin:.1f}")
                expected = result if (precision, way.name) == ("float32", "jax.jit") else expected
                cells += [measure(host, seconds), measure(inside, seconds)]
                cells.append("-" if expected is None else f"{np.linalg.norm(result - expected) / np.linalg.norm(expected):.1e}")


def card(device: str) -> str:
    """Return the device's name and the versions of JAX and PyTorch."""
    import jax

    found = jax.devices(device.partition(":")[0])[int(device.partition(":")[2] or 0)]
    versions = [f"jax {jax.__version__}"]
    if find_spec("torch"):
        import torch

        versions.append(f"torch {torch.__version__}")
    return f"{device}: {found.device_kind} ({platform.machine()}), {', '.join(versions)}"


def main() -> None:
    """Measure the networks that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the script")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--only", default="", help="networks whose names begin so")
    parser.add_argument("--ways", default=",".join(way.name for way in WAYS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    given = parser.parse_args()
    chosen = [way for way in WAYS if way.name in given.ways.split(",") and (find_spec("torch") or "torch" not in way.name)]
    print(card(given.device), COLUMNS, sep="\n", flush=True)
    for make in networks(given.small):
        network = make()
        if network.name.startswith(tuple(given.only.split(","))):
            compare(network, chosen, given.precisions.split(","), given.device, given.seconds)


if __name__ == "__main__":
    main()
