"""Operators that give the same elements another shape or order."""

from ort_lite.inference import ContentsUnknown, Info, NumbersUnknown, Op, RankUnknown, shape_rule
from ort_lite.shapes import Call, Dim, Shape, Symbol, atoms, equal, floordiv, least, product, same, select
from ort_lite_transforms.shapes.contents import elements, grid
from ort_lite_transforms.shapes.operands import axes_of, fresh_shape, integers, length_of, operand


@shape_rule("Reshape")
def reshape(op: Op) -> list[Info]:
    """0 copies a dim unless `allowzero`, -1 is what is left. Spec: ONNX Reshape-21."""
    dtype = op.dtype(0)
    try:
        target = operand(op, "shape", 1)
    except ContentsUnknown as unknown:
        op.needs(unknown)
        count = length_of(op, 1)
        return [op.tensor(dtype, None if count is None else fresh_shape(op, count))]
    if target is None:
        raise op.error("no shape is given")
    return [op.tensor(dtype, reshape_dims(op, op.shape(0), target), op.contents_or_none(0))]


def reshape_dims(op: Op, shape: Shape, target: tuple[Dim, ...]) -> list[Dim]:
    """The dims that `target` stands for. Raises ShapeInferenceError where numbers do not fit."""
    copies = not op.attr("allowzero", 0)
    dims: list[Dim] = []
    marks: list[Dim] = []  # 1 where the dim is to be inferred
    for index, dim in enumerate(target):
        mark: Dim = 0
        if isinstance(dim, int):
            if dim < -1 or (dim == 0 and copies and index >= len(shape)):
                raise op.error(f"{dim} at {index} in the new shape {list(target)} is not possible")
            mark = int(dim == -1)
            dim = shape[index] if dim == 0 and copies else dim
        elif _may_be_a_mark(dim):
            mark = equal(dim, -1)
            dim = select(equal(dim, 0), shape[index], dim) if copies and index < len(shape) else dim
        marks.append(mark)
        dims.append(dim)
    if any(not same(mark, 0) for mark in marks):
        rest = _rest(op, shape, [select(mark, 1, dim) for mark, dim in zip(marks, dims, strict=True)], target, marks)
        return [select(mark, rest, dim) for mark, dim in zip(marks, dims, strict=True)]
    old, new = product(shape), product(dims)
    if isinstance(old, int) and isinstance(new, int) and old != new:
        raise op.error(f"{old} elements cannot take the shape {list(target)}")
    return dims


def _rest(op: Op, shape: Shape, given: list[Dim], target: tuple[Dim, ...], marks: list[Dim]) -> Dim:
    """Elements divided by the given dims; what both have in common is cancelled first."""
    if sum(isinstance(mark, int) and mark == 1 for mark in marks) > 1:
        raise op.error(f"the new shape {list(target)} has more than one -1")
    left: list[Dim] = []
    for dim in shape:
        if dim in given:
            given.remove(dim)
        else:
            left.append(dim)
    old, new = product(left), product(given)
    if isinstance(old, int) and isinstance(new, int) and (old % new if new else old):
        raise op.error(f"{product(shape)} elements cannot take the shape {list(target)}")
    return floordiv(old, new)


def _may_be_a_mark(dim: Dim) -> bool:
    """Return True if 0 or -1 may be meant. Expressions over sizes are sizes, unless they choose between values."""
    low = least(dim)
    if low is not None and low >= 0:
        return False
    return any(atom.signed if isinstance(atom, Symbol) else _chooses(atom) for atom in atoms([dim]))


def _chooses(call: Call) -> bool:
    return call.op == "select" and any(isinstance(arg, int) and arg <= 0 for arg in call.args[1:])


@shape_rule("Flatten")
def flatten(op: Op) -> list[Info]:
    """(d0, ..., dn) -> (d0 * ... up to axis, the rest). Spec: ONNX Flatten-21."""
    shape = op.shape(0)
    axis = op.attr("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise op.error(f"axis {axis} is out of range [{-len(shape)}, {len(shape)}]")
    split = axis + len(shape) if axis < 0 else axis
    return [op.tensor(op.dtype(0), [product(shape[:split]), product(shape[split:])], op.contents_or_none(0))]


@shape_rule("Squeeze")
def squeeze(op: Op) -> list[Info]:
    """Takes axes of length 1 away: those named, or all. Spec: ONNX Squeeze-21."""
    dtype, shape = op.dtype(0), op.shape(0)
    try:
        axes = axes_of(op, 1, len(shape))
    except NumbersUnknown as unknown:
        op.needs(unknown)
        count = length_of(op, 1)
        return [op.tensor(dtype, None if count is None else fresh_shape(op, len(shape) - count))]
    if axes is None:
        if any(not isinstance(dim, int) for dim in shape):
            return [_squeeze_unknown_dims(op)]
        axes = [axis for axis, dim in enumerate(shape) if dim == 1]
    for axis in axes:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise op.error(f"axis {axis} to be squeezed has {shape[axis]} elements, not 1")
    return [op.tensor(dtype, [dim for axis, dim in enumerate(shape) if axis not in axes], op.contents_or_none(0))]


def _squeeze_unknown_dims(op: Op) -> Info:
    """The rank depends on which dims are 1."""
    shape = op.shape(0)
    if all((isinstance(dim, int) and dim != 1) or ((low := least(dim)) is not None and low > 1) for dim in shape):
        return op.info(0)
    op.needs(RankUnknown(0))
    return op.tensor(op.dtype(0), None)


@shape_rule("Unsqueeze")
def unsqueeze(op: Op) -> list[Info]:
    """Puts in axes of length 1; they are counted in the result. Spec: ONNX Unsqueeze-21."""
    dtype, shape = op.dtype(0), op.shape(0)
    try:
        found = integers(op, "axes", 1)
        axes = axes_of(op, 1, len(shape) + len(found or ()))
    except NumbersUnknown as unknown:
        op.needs(unknown)
        count = length_of(op, 1)
        return [op.tensor(dtype, None if count is None else fresh_shape(op, len(shape) + count))]
    if axes is None:
        raise op.error("no axes are given")
    dims = list(shape)
    for axis in sorted(axes):
        dims.insert(axis, 1)
    return [op.tensor(dtype, dims, op.contents_or_none(0))]


@shape_rule("Transpose")
def transpose(op: Op) -> list[Info]:
    """Spec: ONNX Transpose-21."""
    shape = op.shape(0)
    perm = op.attr("perm") or range(len(shape))[::-1]
    if sorted(perm) != list(range(len(shape))):
        raise op.error(f"perm {list(perm)} is no permutation of {len(shape)} axes")
    contents = op.contents_or_none(0)
    if contents is not None and len(shape) > 1:
        contents = elements(grid(contents, shape).transpose(perm))
    return [op.tensor(op.dtype(0), [shape[axis] for axis in perm], contents)]


@shape_rule("DepthToSpace")
def depth_to_space(op: Op) -> list[Info]:
    """(N, C, H, W) -> (N, C / b**2, H * b, W * b). Spec: ONNX DepthToSpace-13."""
    (n, c, h, w), block = op.shape(0), op.attr("blocksize")
    if isinstance(c, int) and c % block**2:
        raise op.error(f"{c} channels are no multiple of {block}**2")
    return [op.tensor(op.dtype(0), [n, floordiv(c, block**2), h * block, w * block])]


@shape_rule("SpaceToDepth")
def space_to_depth(op: Op) -> list[Info]:
    """(N, C, H, W) -> (N, C * b**2, H / b, W / b). Spec: ONNX SpaceToDepth-13."""
    (n, c, h, w), block = op.shape(0), op.attr("blocksize")
    if any(isinstance(dim, int) and dim % block for dim in (h, w)):
        raise op.error(f"height {h} and width {w} are no multiples of {block}")
    return [op.tensor(op.dtype(0), [n, c * block**2, floordiv(h, block), floordiv(w, block)])]


@shape_rule("Trilu")
def trilu(op: Op) -> list[Info]:
    """y like x. Spec: ONNX Trilu-14."""
    return [op.tensor(op.dtype(0), op.shape(0))]


@shape_rule("ReverseSequence")
def reverse_sequence(op: Op) -> list[Info]:
    """y like x; one length for each element of the batch. Spec: ONNX ReverseSequence-10."""
    shape, batch, time = op.shape(0), op.attr("batch_axis", 1), op.attr("time_axis", 0)
    if op.at_load and sorted((batch, time)) != [0, 1]:
        raise op.error(f"batch_axis {batch} and time_axis {time} should be 0 and 1, or 1 and 0")
    return [op.tensor(op.dtype(0), shape)]


RULES = [
    *reshape,
    *flatten,
    *squeeze,
    *unsqueeze,
    *transpose,
    *depth_to_space,
    *space_to_depth,
    *trilu,
    *reverse_sequence,
]
