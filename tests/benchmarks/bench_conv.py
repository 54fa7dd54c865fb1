"""Convolutions against onnxruntime's, one thread: three of a kind in a row, so that layout changes at the ends count less.

    python -m tests.benchmarks.bench_conv

Prediction: 1 for direct, pointwise and depthwise ones, where both are limited by multiplications or memory; 2 to 3 for 3x3 ones
with many channels, where F(4x4, 3x3) multiplies a quarter as much and the transforms stay in the cache.
"""

from typing import Any

import numpy as np

from tests.benchmarks.pairs import compare, model_of

LAYERS = [
    ("3x3", 56, 64, 64, 3, 1, 1), ("3x3", 28, 128, 128, 3, 1, 1), ("3x3", 14, 256, 256, 3, 1, 1), ("3x3", 7, 512, 512, 3, 1, 1),
    ("1x1", 56, 64, 64, 1, 1, 1), ("1x1", 28, 128, 128, 1, 1, 1), ("1x1", 14, 256, 256, 1, 1, 1), ("1x1", 7, 512, 512, 1, 1, 1),
    ("few channels", 112, 16, 16, 3, 1, 1), ("5x5", 28, 48, 48, 5, 1, 1), ("grouped", 28, 128, 128, 3, 1, 4),
    ("depthwise 3x3", 112, 32, 32, 3, 1, 32), ("depthwise 3x3", 56, 144, 144, 3, 1, 144), ("depthwise 3x3", 14, 576, 576, 3, 1, 576),
    ("depthwise 5x5", 28, 240, 240, 5, 1, 240),
]  # fmt: skip
"""(what, H = W, C, O, kernel, stride, groups), three of them in a row"""
FIRST = [
    ("7x7 stride 2", 224, 3, 64, 7, 2, 1),
    ("3x3 stride 2", 224, 3, 32, 3, 2, 1),
    ("3x3 stride 2", 56, 128, 128, 3, 2, 1),
    ("1x1 stride 2", 56, 256, 512, 1, 2, 1),
    ("depthwise stride 2", 112, 96, 96, 3, 2, 96),
]
"""The same, alone."""


def layer(c: int, o: int, kernel: int, stride: int, groups: int) -> tuple[str, dict[str, Any], list[Any]]:
    random = np.random.default_rng(c)
    w = random.standard_normal((o, c // groups, kernel, kernel), np.float32) / np.sqrt(
        c // groups * kernel**2, dtype=np.float32
    )
    attributes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
    return "Conv", attributes, [w, random.standard_normal(o, np.float32)]


def main() -> None:
    ratios = []
    for count, layers in ((3, LAYERS), (1, FIRST)):
        for what, size, c, o, kernel, stride, groups in layers:
            x = np.random.default_rng(0).standard_normal((1, c, size, size), np.float32)
            model = model_of([layer(c, o, kernel, stride, groups)] * count, x)
            pixels = ((size - 1) // stride + 1) ** 2
            flops = 2e-9 * count * pixels * o * (c // groups) * kernel**2
            ratios.append(compare(f"{what} {size}x{size} {c} to {o}", model, x, flops))
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
