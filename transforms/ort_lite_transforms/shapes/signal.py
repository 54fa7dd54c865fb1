"""Spectra and windows."""

from ort_lite.dtypes import DType, from_onnx
from ort_lite.inference import Info, Op, shape_rule
from ort_lite.shapes import Dim, floordiv
from ort_lite_transforms.shapes.operands import numbers, replace_dim


def _output(op: Op) -> DType:
    return from_onnx(op.attr("output_datatype", 1))


@shape_rule("BlackmanWindow", "HammingWindow", "HannWindow", types=(_output,))
def window(op: Op) -> list[Info]:
    """A scalar size -> (size,). Spec: ONNX HannWindow-17."""
    return [op.tensor(_output(op), op.contents(0))]


@shape_rule("DFT", since=20)
def dft(op: Op) -> list[Info]:
    """(..., n, ..., 1 or 2); the axis is an input. Spec: ONNX DFT-20."""
    return _transform(op, numbers(op, 2)[0] if op.has(2) else -2)


@shape_rule("DFT")
def dft_by_attribute(op: Op) -> list[Info]:
    """Spec: ONNX DFT-17."""
    return _transform(op, op.attr("axis", 1))


def _transform(op: Op, axis: int) -> list[Info]:
    shape = op.shape(0)
    axis = op.axis(axis, len(shape))
    onesided, inverse = op.attr("onesided", 0), op.attr("inverse", 0)
    length: Dim = shape[axis]
    if op.has(1):
        length = op.scalar(1)
    elif onesided and inverse:
        length = 2 * (shape[axis] - 1)
    parts = 1 if onesided and inverse else 2
    if onesided and not inverse:
        length = floordiv(length, 2) + 1
    return [op.tensor(op.dtype(0), [*replace_dim(shape, axis, length)[:-1], parts])]


@shape_rule("STFT")
def stft(op: Op) -> list[Info]:
    """(B, samples, 1 or 2) -> (B, frames, bins, 2). Spec: ONNX STFT-17."""
    batch, samples = op.shape(0)[:2]
    step = op.scalar(1)
    frame: Dim = samples
    if op.has(3):
        frame = op.scalar(3)
    elif op.has(2):
        frame = op.shape(2)[0]
    if op.at_load and isinstance(frame, int) and (frame < 1 or (isinstance(samples, int) and frame > samples)):
        raise op.error(f"a frame of {frame} does not fit into {samples} samples")
    bins = floordiv(frame, 2) + 1 if op.attr("onesided", 1) else frame
    return [op.tensor(op.dtype(0), (batch, floordiv(samples - frame, step) + 1, bins, 2))]


@shape_rule("MelWeightMatrix", types=(_output,))
def mel_weight_matrix(op: Op) -> list[Info]:
    """bins and DFT length -> (length / 2 + 1, bins). Spec: ONNX MelWeightMatrix-17."""
    bins, length = op.scalar(0), op.scalar(1)
    return [op.tensor(_output(op), (floordiv(length, 2) + 1, bins))]


RULES = [*window, *dft, *dft_by_attribute, *stft, *mel_weight_matrix]
