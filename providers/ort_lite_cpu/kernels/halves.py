"""Softmax as float16 and bfloat16 define it: values are kept in f32 (or f64) and rounded wherever an operator of its function ends."""

from typing import Any

from ort_lite.native.lang import (
    STRICT,
    Ptr,
    Static,
    bf16_to_f32,
    cast,
    exp,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
    fmax,
    like,
    native,
)

RUN = 8
"""bfloat16 numbers that are added one after the other; sums of so many are added in f32."""


@native(fastmath=STRICT)
def round_to_half(x: Any, half: Static) -> Any:
    """Return x as the nearest number of the 16-bit type `half`, by way of f32; "": x."""
    if half == "float16":
        return like(x, f16_to_f32(f32_to_f16(cast(x, "f32"))))
    if half == "bfloat16":
        return like(x, bf16_to_f32(f32_to_bf16(cast(x, "f32"))))
    return x


@native(fastmath=STRICT)
def highest(s: Ptr, first: int, last: int) -> Any:
    """Return the largest of s[first : last], NaN if there is one, -inf of none."""
    top = like(s, -float("inf"))
    for j in range(first, last):
        top = fmax(top, s[j])
    return top


@native(fastmath=STRICT)
def sum_half(s: Ptr, first: int, last: int, half: Static) -> Any:
    """Return the sum of s[first : last]. float16: rounded once. bfloat16: after each addition of a run, then once at the end.

    The expected values of onnx add bfloat16 numbers so, however many; but such a sum stays where it is when it is 256 times as
    large as the numbers, and a softmax over a thousand keys would be twice too large.
    """
    total = like(s, 0)
    if half != "bfloat16":
        for j in range(first, last):
            total += s[j]
        return round_to_half(total, half)
    for start in range(first, last, RUN):
        run = like(s, 0)
        for j in range(start, min(start + RUN, last)):
            run = round_to_half(run + s[j], half)
        total += run
    return round_to_half(total, half)


@native(fastmath=STRICT)
def softmax_in_place(s: Ptr, first: int, last: int, half: Static) -> None:
    """s[first : last] = its softmax; differences, exponentials, sum and quotients are rounded to `half`.

    Spec: the function of ONNX Softmax-13.
    """
    top = highest(s, first, last)
    for j in range(first, last):
        s[j] = round_to_half(exp(round_to_half(s[j] - top, half)), half)
    total = sum_half(s, first, last, half)
    for j in range(first, last):
        s[j] = round_to_half(s[j] / total, half)
