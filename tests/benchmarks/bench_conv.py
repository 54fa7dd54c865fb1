"""Convolutions against onnxruntime's.

    python -m tests.benchmarks.bench_conv [--threads N] [--target NAME] [WORD...]

Layers whose line has one of the words, or all. Three of a kind are in a row where they can, so that layout changes at the ends count
less. Prediction: 1 for direct, pointwise and depthwise ones, where both are limited by multiplications or memory; 2 to 3 for 3x3 ones
with many channels, where F(4x4, 3x3) multiplies a quarter as much and the transforms stay in the cache.
"""

import argparse
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.pairs import compare, model_of


class Layer(NamedTuple):
    """Convolutions in a row, transposed or not: spatial axes, channels in and out, kernel; one stride and dilation for all axes."""

    what: str
    size: Sequence[int]
    c: int
    o: int
    kernel: Sequence[int]
    strides: int = 1
    groups: int = 1
    times: int = 1
    dilations: int = 1

    @property
    def label(self) -> str:
        kernel, size = ("x".join(map(str, dims)) for dims in (self.kernel, self.size))
        groups = f" in {self.groups} groups" if self.groups > 1 else ""
        apart = f", {self.dilations} apart" if self.dilations > 1 else ""
        return f"{self.what} {kernel}/{self.strides}{apart} at {size}, {self.c} to {self.o}{groups}"

    @property
    def transposed(self) -> bool:
        return self.what == "transposed"

    def node(self) -> tuple[str, dict[str, Any], list[Any]]:
        random = np.random.default_rng(self.c)
        inner = self.o if self.transposed else self.c
        w = random.standard_normal((self.c + self.o - inner, inner // self.groups, *self.kernel), np.float32)
        w /= np.sqrt(self.c // self.groups * prod(self.kernel), dtype=np.float32)
        attributes: dict[str, Any] = {"strides": [self.strides] * len(self.size), "group": self.groups}
        attributes["pads"] = [k // 2 * self.dilations for k in self.kernel] * 2
        attributes["dilations"] = [self.dilations] * len(self.size)
        if self.transposed:
            attributes["output_padding"] = [(self.strides - k) % 2 for k in self.kernel]
        return "ConvTranspose" if self.transposed else "Conv", attributes, [w, random.standard_normal(self.o, np.float32)]

    @property
    def gigaflops(self) -> float:
        pixels = prod(n if self.transposed else (n - 1) // self.strides + 1 for n in self.size)
        return 2e-9 * self.times * pixels * self.o * (self.c // self.groups) * prod(self.kernel)

    def compare(self, threads: int, target: str) -> float:
        x = np.random.default_rng(0).standard_normal((1, self.c, *self.size), np.float32)
        return compare(self.label, model_of([self.node()] * self.times, x), x, self.gigaflops, threads, target)


LAYERS = [
    *(Layer("3x3", (n, n), c, c, (3, 3), times=3) for n, c in ((56, 64), (28, 128), (14, 256), (7, 512))),
    *(Layer("1x1", (n, n), c, c, (1, 1), times=3) for n, c in ((56, 64), (28, 128), (14, 256), (7, 512))),
    Layer("few channels", (112, 112), 16, 16, (3, 3), times=3),
    Layer("no whole vectors", (56, 56), 24, 24, (3, 3), times=3),
    Layer("no whole vectors", (28, 28), 40, 40, (3, 3), times=3),
    Layer("large", (28, 28), 48, 48, (5, 5), times=3),
    Layer("large", (172, 264), 8, 32, (5, 5)),
    Layer("large", (172, 264), 32, 8, (3, 39)),
    Layer("one output", (172, 264), 32, 1, (5, 5)),
    Layer("one channel", (128, 128), 1, 16, (9, 9)),
    Layer("grouped", (28, 28), 128, 128, (3, 3), groups=4, times=3),
    Layer("grouped", (56, 56), 128, 128, (3, 3), groups=32, times=3),
    Layer("depthwise", (112, 112), 32, 32, (3, 3), groups=32, times=3),
    Layer("depthwise", (56, 56), 144, 144, (3, 3), groups=144, times=3),
    Layer("depthwise", (14, 14), 576, 576, (3, 3), groups=576, times=3),
    Layer("depthwise", (28, 28), 240, 240, (5, 5), groups=240, times=3),
    Layer("depthwise", (112, 112), 96, 96, (3, 3), 2, groups=96),
    Layer("first", (224, 224), 3, 64, (7, 7), 2),
    Layer("first", (224, 224), 3, 32, (3, 3), 2),
    Layer("first", (224, 224), 3, 16, (3, 3)),
    Layer("first", (112, 112), 1, 32, (3, 3)),
    Layer("strided", (56, 56), 128, 128, (3, 3), 2),
    Layer("strided", (56, 56), 256, 512, (1, 1), 2),
    Layer("audio", (16000,), 1, 64, (41,), 4),
    Layer("audio", (16000,), 1, 512, (10,), 5),
    Layer("audio", (3199,), 512, 512, (3,), 2),
    Layer("audio", (3000,), 80, 384, (3,)),
    Layer("audio", (4000,), 32, 32, (7,), times=3),
    Layer("audio", (8000,), 16, 1, (7,)),
    Layer("audio", (8000,), 64, 64, (11,), times=3, dilations=5),
    Layer("audio", (12000,), 32, 64, (4,), 2),
    Layer("dilated", (28, 28), 256, 256, (3, 3), dilations=6),
    Layer("volumes", (16, 56, 56), 3, 32, (3, 3, 3)),
    Layer("volumes", (16, 28, 28), 32, 32, (3, 3, 3), times=3),
    Layer("head", (56, 56), 64, 4, (1, 1)),
    Layer("transposed", (64, 64), 64, 3, (4, 4), 2),
    Layer("transposed", (4000,), 128, 64, (4,), 2),
    Layer("transposed", (32, 32), 128, 64, (4, 4), 2),
    Layer("transposed", (64, 64), 32, 32, (2, 2), 2),
    Layer("transposed", (500,), 256, 128, (16,), 8),
]


def layer(c: int, o: int, kernel: int, stride: int, groups: int) -> tuple[str, dict[str, Any], list[Any]]:
    """The node of a Conv over images, padded by half its kernel."""
    return Layer("", (1, 1), c, o, (kernel, kernel), stride, groups).node()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="host")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    chosen = [layer for layer in LAYERS if not given.words or any(word in layer.label for word in given.words)]
    ratios = [layer.compare(given.threads, given.target) for layer in chosen]
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
