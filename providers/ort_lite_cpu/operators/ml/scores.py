"""Post-transforms of scores by classifiers and regressors of ai.onnx.ml; not operators themselves.

The formulas are onnxruntime's, which computes them in float32 whatever the type of the scores.
"""

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, STRICT, Ptr, Static, cast, exp, fabs, like, log, native, shift, span, sqrt
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.attributes import choice, one_of
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.run.pace import ELEMENTS

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Transforms in the order of TreeEnsemble-5's numbers."""

_ROOT_TWO = np.float32(2**0.5)
_SLOPE = np.float32(1) / np.float32(0.147)
_CENTRE = np.float32(2) / (np.float32(3.14159) * np.float32(0.147))
_ALMOST_ZERO = np.float32(1e-7)


@native
def logistic(v: float) -> float:
    """Return 1 / (1 + exp(-v)), v float32, without overflow."""
    high = like(v, 1) / (like(v, 1) + exp(-fabs(v)))
    result: float = like(v, 1) - high if v < like(v, 0) else high
    return result


@native(fastmath=STRICT)
def probit(p: float) -> float:
    """Return about the inverse of the normal distribution's integral at p, float32.

    Around 1/2 few digits survive the difference of the root and v; rounded strictly they are those of onnxruntime.
    """
    x = like(p, 2) * p - like(p, 1)
    logarithm = like(p, log(cast((like(p, 1) - x) * (like(p, 1) + x), "f64")))
    v = _CENTRE + like(p, 0.5) * logarithm
    root = sqrt(sqrt(v * v - _SLOPE * logarithm) - v)
    result: float = -_ROOT_TWO * root if x < like(p, 0) else _ROOT_TWO * root
    return result


@native
def softmax(z: Ptr, count: int, skip_zeros: int) -> None:
    """Replace z[:count], count > 0, by its softmax; if `skip_zeros`, zeros are left out and stay zeros."""
    most = cast(z[0], "f32")
    for k in range(count):
        most = max(most, cast(z[k], "f32"))
    total = like(most, 0)
    for k in range(count):
        v = cast(z[k], "f32")
        if skip_zeros == 0 or fabs(v) > _ALMOST_ZERO:
            v = exp(v - most)
            total += v
        else:
            v = v * exp(-most)
        z[k] = like(z[k], v)
    for k in range(count):
        z[k] = like(z[k], cast(z[k], "f32") / total)


@native
def transform(z: Ptr, count: int, kind: Static) -> None:
    """Apply one of TRANSFORMS to z[:count], one row's scores."""
    if kind == "SOFTMAX":
        softmax(z, count, 0)
    elif kind == "SOFTMAX_ZERO":
        softmax(z, count, 1)
    elif kind == "LOGISTIC":
        for k in range(count):
            z[k] = like(z[k], logistic(cast(z[k], "f32")))
    elif kind == "PROBIT":
        for k in range(count):
            z[k] = like(z[k], probit(cast(z[k], "f32")))


@native
@extents(z="rows * count")
def transform_rows(z: Ptr, rows: int, count: int, kind: Static, part: int, parts: int) -> int:
    """z (rows, count) = one of TRANSFORMS of each row, in place."""
    for row in span(rows, part, parts):
        transform(shift(z, row * count), count, kind)
    return OK


def post_transform(op: NodeLowering, z: Tensor, rows: Dim, count: int) -> None:
    """Emit the node's post_transform of z (rows, count), in place. Of a single score only PROBIT makes anything else."""
    kind = kind_of(op)
    if kind != "NONE" and (count > 1 or kind == "PROBIT"):
        op.emit(transform_rows, [z], rows=rows, count=count, kind=kind, work=rows * count * 8)


def kind_of(op: NodeLowering) -> str:
    """Return the node's post_transform. Raises NotImplemented for one that does not exist."""
    return choice(op, "post_transform", "NONE", TRANSFORMS)


class Labels:
    """The labels of a classifier's classes: kernels write numbers, which stay or stand for strings."""

    def __init__(self, op: NodeLowering, strings: str, numbers: str) -> None:
        self._op = op
        one_of(op, strings, numbers)
        self.strings: list[str] = list(op.attr(strings) or ())
        self.numbers = list(range(len(self.strings))) if self.strings else list(op.attr(numbers) or ())

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def table(self) -> Tensor:
        """Return what a kernel writes for class k, as an operand."""
        return self._op.array(np.array(self.numbers, np.int64))

    def output(self, rows: Dim) -> Tensor:
        """Return the operand that a kernel writes to."""
        own = self._op.wants(0) and not self.strings
        return self._op.output(0) if own else self._op.temporary("int64", (rows,))

    def finish(self, written: Tensor) -> None:
        """Turn numbers into strings, where the labels are."""
        if self.strings and self._op.wants(0):
            texts, pace = np.array(self.strings, object), self._op.pace

            def step(numbers: Array) -> list[Array]:
                return [texts[numbers] if numbers.size <= ELEMENTS else pace.pick(texts, numbers)]

            self._op.python(step, [written], [0])


def scores_output(op: NodeLowering, rows: Dim, count: int) -> Tensor:
    """Return the classifier's second output, (rows, count)."""
    return op.output(1) if op.wants(1) else op.temporary("float32", (rows, count))


def float_rows(op: NodeLowering) -> tuple[Tensor, Dim, Dim]:
    """Return input 0 as float32 (N, C) with N and C; a vector is one row."""
    x = op.raw(0)
    x = op.input(0) if x.dtype == "float32" else op.store(op.cast(x, "float32"))
    x = op.view(x, (1, *x.shape)) if len(x.shape) == 1 else x
    return x, x.shape[0], x.shape[-1]
