"""Three well-known networks with random weights, written once for the backends of benchmarks/backends.py."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from benchmarks.backends import Operations

from ort_lite.dtypes import Array
from ort_lite.record import Record

Weights = Mapping[str, Any]


class Architecture(Record):
    """A network. `function(operations, weights, *inputs)` returns the outputs; `open` has the input shapes of the ONNX model.

    `sizes` are the number of heads, the number of key heads, and the size of a head.
    """

    name: str
    weights: Mapping[str, Array]
    inputs: Mapping[str, Array]
    open: Mapping[str, tuple[int | str, ...]]
    function: Callable[..., list[Any]]
    sizes: tuple[int, int, int] = (1, 1, 1)


def _random(rng: np.random.Generator, **shapes: tuple[int, ...]) -> dict[str, Array]:
    """Return random weights that keep the magnitude of activations. Names that end with scale are 1, with bias 0.1."""
    made: dict[str, Array] = {}
    for name, shape in shapes.items():
        if name.endswith(("scale", "bias")):
            made[name] = np.full(shape, 1 if name.endswith("scale") else 0.1, np.float32)
        else:
            fan = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
            deviation = 1.0 if name.endswith("table") else fan**-0.5
            made[name] = rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
    return made


def bert(name: str, layers: int, hidden: int, heads: int, batch: int, length: int, pooled: bool) -> Architecture:
    """Build an encoder like BERT, which returns the last hidden state or its mean over the length."""
    rng, words = np.random.default_rng(0), 30522
    shapes: dict[str, tuple[int, ...]] = {"word_table": (words, hidden), "place_table": (512, hidden)}
    shapes |= {"first_scale": (hidden,), "first_bias": (hidden,)}
    for k in range(layers):
        shapes |= {f"{k}_{part}": (hidden, hidden) for part in ("q", "k", "v", "o")}
        shapes |= {f"{k}_{part}_bias": (hidden,) for part in ("q", "k", "v", "o", "down", "one", "two")}
        shapes |= {f"{k}_one_scale": (hidden,), f"{k}_two_scale": (hidden,), f"{k}_up_bias": (4 * hidden,)}
        shapes |= {f"{k}_up": (hidden, 4 * hidden), f"{k}_down": (4 * hidden, hidden)}

    def function(f: Operations, w: Weights, ids: Any, places: Any, mask: Any) -> list[Any]:
        x = f.add(f.embed(w["word_table"], ids), f.embed(w["place_table"], places))
        x = f.layer_norm(x, w["first_scale"], w["first_bias"])
        bias = f.key_bias(mask)
        for k in range(layers):
            q, key, v = (
                f.split_heads(f.linear(x, w[f"{k}_{part}"], w[f"{k}_{part}_bias"]), heads, hidden // heads)
                for part in ("q", "k", "v")
            )
            y = f.linear(f.attention(q, key, v, bias), w[f"{k}_o"], w[f"{k}_o_bias"])
            x = f.layer_norm(f.add(x, y), w[f"{k}_one_scale"], w[f"{k}_one_bias"])
            y = f.activate("Gelu", f.linear(x, w[f"{k}_up"], w[f"{k}_up_bias"]))
            y = f.linear(y, w[f"{k}_down"], w[f"{k}_down_bias"])
            x = f.layer_norm(f.add(x, y), w[f"{k}_two_scale"], w[f"{k}_two_bias"])
        return [f.result(f.mean(x, [1]) if pooled else x)]

    places = np.tile(np.arange(length), (batch, 1))
    mask = np.ones((batch, length), np.int64)
    mask[1::2, (length + 1) // 2 :] = 0
    inputs = {"ids": rng.integers(0, words, (batch, length)), "places": places, "mask": mask}
    shape = ("batch", "length")
    return Architecture(
        name, _random(rng, **shapes), inputs, dict.fromkeys(inputs, shape), function, (heads, heads, hidden // heads)
    )


def resnet50(batch: int, size: int = 224) -> Architecture:
    """Build ResNet-50 with batch normalization folded into the convolutions."""
    rng, stages = np.random.default_rng(0), ((64, 3), (128, 4), (256, 6), (512, 3))
    shapes: dict[str, tuple[int, ...]] = {"stem": (64, 3, 7, 7), "stem_bias": (64,), "head": (2048, 1000), "head_bias": (1000,)}
    blocks: list[tuple[str, int, bool]] = []
    before = 64
    for s, (width, count) in enumerate(stages):
        for k in range(count):
            name = f"{s}_{k}"
            kernels = {"a": (width, before, 1, 1), "b": (width, width, 3, 3), "c": (4 * width, width, 1, 1)}
            kernels |= {"d": (4 * width, before, 1, 1)} if k == 0 else {}
            shapes |= {f"{name}_{part}": shape for part, shape in kernels.items()}
            shapes |= {f"{name}_{part}_bias": (shape[0],) for part, shape in kernels.items()}
            blocks.append((name, 2 if k == 0 and s else 1, k == 0))
            before = 4 * width

    def function(f: Operations, w: Weights, image: Any) -> list[Any]:
        def conv(name: str, x: Any, stride: int = 1, pad: int = 0) -> Any:
            return f.conv(x, w[name], w[f"{name}_bias"], stride, pad)

        x = f.max_pool(f.activate("Relu", conv("stem", f.convert(image), 2, 3)))
        for name, stride, first in blocks:
            y = f.activate("Relu", conv(f"{name}_a", x))
            y = f.activate("Relu", conv(f"{name}_b", y, stride, 1))
            x = f.activate("Relu", f.add(conv(f"{name}_c", y), conv(f"{name}_d", x, stride) if first else x))
        return [f.result(f.linear(f.mean(x, [2, 3]), w["head"], w["head_bias"]))]

    weights = _random(rng, **shapes)
    for name, _, _ in blocks:
        weights[f"{name}_c"] *= np.float32(0.3)  # keeps the sum of 16 blocks from growing
    image = rng.standard_normal((batch, 3, size, size), dtype=np.float32)
    return Architecture(f"ResNet-50 {batch}x{size}", weights, {"image": image}, {"image": ("batch", 3, size, size)}, function)


def _angles(slots: int, size: int) -> dict[str, Array]:
    """Return the cosines and sines of rotary position embeddings, one row per position."""
    half = np.arange(slots)[:, None] * 1e6 ** (-np.arange(0, size, 2) / size)
    angles = np.concatenate([half, half], -1)
    return {"cos_angles": np.cos(angles).astype(np.float32), "sin_angles": np.sin(angles).astype(np.float32)}


def qwen2(name: str, layers: int, hidden: int, heads: int, kv_heads: int, inner: int, words: int, slots: int) -> Architecture:
    """Build one step of a decoder like Qwen2, which returns the next token and caches with the new keys and values.

    The inputs are the token, its position, and two caches of `slots` positions per layer.
    """
    rng, size = np.random.default_rng(0), hidden // heads
    widths = {"q": heads * size, "k": kv_heads * size, "v": kv_heads * size}
    shapes: dict[str, tuple[int, ...]] = {"word_table": (words, hidden), "last_scale": (hidden,), "head": (hidden, words)}
    for k in range(layers):
        shapes |= {f"{k}_one_scale": (hidden,), f"{k}_two_scale": (hidden,), f"{k}_o": (hidden, hidden)}
        shapes |= {f"{k}_{part}": (hidden, width) for part, width in widths.items()}
        shapes |= {f"{k}_{part}_bias": (width,) for part, width in widths.items()}
        shapes |= {f"{k}_gate": (hidden, inner), f"{k}_up": (hidden, inner), f"{k}_down": (inner, hidden)}

    def function(f: Operations, w: Weights, token: Any, slot: Any, *caches: Any) -> list[Any]:
        x = f.embed(w["word_table"], token)
        cos, sin = (f.embed(w[f"{part}_angles"], slot) for part in ("cos", "sin"))
        bias, made = f.slot_bias(w["slots"], slot), []
        for k in range(layers):
            y = f.rms_norm(x, w[f"{k}_one_scale"])
            q, key, v = (
                f.split_heads(f.linear(y, w[f"{k}_{part}"], w[f"{k}_{part}_bias"]), width // size, size)
                for part, width in widths.items()
            )
            made.append(f.update(caches[2 * k], w["places"], slot, f.rotate(key, cos, sin)))
            made.append(f.update(caches[2 * k + 1], w["places"], slot, v))
            y = f.attention(f.rotate(q, cos, sin), made[-2], made[-1], bias)
            x = f.add(x, f.linear(y, w[f"{k}_o"]))
            y = f.rms_norm(x, w[f"{k}_two_scale"])
            gate = f.activate("Silu", f.linear(y, w[f"{k}_gate"]))
            x = f.add(x, f.linear(f.mul(gate, f.linear(y, w[f"{k}_up"])), w[f"{k}_down"]))
        return [f.best(f.linear(f.rms_norm(x, w["last_scale"]), w["head"])), *made]

    weights = _random(rng, **shapes) | _angles(slots, size)
    weights |= {"slots": np.arange(slots).reshape(1, 1, 1, -1), "places": np.arange(slots).reshape(1, -1, 1)}
    inputs: dict[str, Array] = {"token": np.array([[17]]), "slot": np.array([0])}
    inputs |= {f"cache_{k}": np.zeros((1, kv_heads, slots, size), np.float32) for k in range(2 * layers)}
    shapes_of: dict[str, tuple[int | str, ...]] = {name: array.shape for name, array in inputs.items()}
    return Architecture(name, weights, inputs, shapes_of, function, (heads, kv_heads, size))
