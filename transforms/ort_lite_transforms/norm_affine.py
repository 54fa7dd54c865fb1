"""Mul and Add of a constant per channel after a BatchNormalization become its scale and shift (Caffe's models)."""

import numpy as np

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, constant, op, rule
from ort_lite_transforms.channels import per_channel

_NORM = op("BatchNormalization", "x", constant("scale"), constant("shift"), name="norm")


@rule(
    op("Mul", _NORM, constant("other"), name="root", since=7, commutative=True),
    op("Add", _NORM, constant("other"), name="root", since=7, commutative=True),
    level="basic",
    private=True,
)
def fuse_norm_affine(
    rewriter: Rewriter, x: Value, norm: Node, scale: Value, shift: Value, other: Value, root: Node
) -> Done | Skip:
    """(s * z + t) * c is (s * c) * z + t * c; + c goes into t."""
    if x.shape is None or norm.attr("training_mode", 0) or not norm.attr("spatial", 1):
        return Skip(f"{norm} trains, is not spatial, or the rank of {x.name} is not known")
    s, t, array = rewriter.array(scale), rewriter.array(shift), rewriter.array(other)
    assert s is not None and t is not None and array is not None
    c = per_channel(array, len(x.shape), s.size)
    if c is None:
        return Skip(f"{other.name} is not one number for each channel")
    if not s.dtype == t.dtype == c.dtype:
        return Skip(f"{scale.name}, {shift.name} and {other.name} have not one type")
    if root.op_type == "Mul":
        new_scale, new_shift = rewriter.constant(np.asarray(s * c), scale.name), np.asarray(t * c)
    else:
        new_scale, new_shift = scale, np.asarray(t + c)
    operands = (x, new_scale, rewriter.constant(new_shift, shift.name), *norm.inputs[3:])
    return rewriter.replace(root, rewriter.op("BatchNormalization", *operands, like=norm))
