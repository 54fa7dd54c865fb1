"""The ways to run the networks of benchmarks/architectures.py: ort-lite, `jax.jit` and PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
from benchmarks.architectures import Architecture
from benchmarks.backends import Jax, Onnx, Torch
from onnx import TensorProto

import ort_lite
from ort_lite.dtypes import Array

PRECISIONS = {"float32": "highest", "tf32": "default", "bfloat16": "highest"}
"""Precision -> JAX's name for the precision of products."""

Runs = tuple[Callable[[], Any], Callable[[], Any] | None]
"""A run from host to host, which gives the first output, and one on the device."""
Way = Callable[[str, str], Runs]
"""Prepares runs of a network for a precision and a device."""


def jax_device(name: str) -> Any:
    """Return JAX's device for "kind" or "kind:number"."""
    import jax

    kind, _, number = name.partition(":")
    return jax.devices(kind)[int(number or 0)]


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


def provider_options(precision: str, device: str) -> dict[str, str]:
    """Return the options of the provider for a precision and a device such as "gpu:1"."""
    kind, _, number = device.partition(":")
    return {"device": kind, "device_id": number or "0", "precision": "tf32" if precision == "tf32" else "float32"}


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
    options = provider_options(precision, device)
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

    place = jax_device(device)
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


def ways(network: Architecture) -> dict[str, Way]:
    """Return the ways to run a network, by name; those whose packages are missing are left out."""
    found = {
        "jax.jit": through_jax,
        "ort-lite": through_ort_lite,
        "torch eager": torch_eager,
        "torch.compile": torch_compile,
    }
    return {name: partial(way, network) for name, way in found.items() if find_spec("torch" if "torch" in name else "jax")}
