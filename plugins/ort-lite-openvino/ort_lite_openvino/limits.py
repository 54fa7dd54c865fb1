"""Restrictions of operators that OpenVINO supports: each check returns the (code, detail) of a Rejection, or None."""

from ort_lite.graph import Node
from ort_lite.shapes import Dim, same

Why = tuple[str, str]


def _attributes(node: Node, **fine: object) -> Why | None:
    """Reject an attribute whose value differs from the supported one, which is also its default."""
    for name, value in fine.items():
        given = node.attr(name, value)
        if given != value:
            return "attribute", f"{name} is {given}, takes {value}"
    return None


def _outputs(node: Node, first: int) -> Why | None:
    """Reject a node if an output from `first` on is read."""
    for value in node.outputs[first:]:
        if value is not None and (value.uses or value.is_graph_output()):
            return "output", f"{value.name!r} is read, computes the first {first} outputs alone"
    return None


def _has_input(node: Node, index: int) -> bool:
    return len(node.inputs) > index and node.inputs[index] is not None


def _shape(node: Node, index: int) -> tuple[Dim, ...]:
    """Return the shape of an input whose rank is known."""
    value = node.inputs[index]
    return (value.shape or ()) if value is not None else ()


def dropout(node: Node) -> Why | None:
    """Reject Dropout in training mode."""
    mode = node.inputs[2] if _has_input(node, 2) else None
    training = mode is not None and mode.constant is not None and mode.constant.any()
    return ("attribute", "training_mode is true, takes false") if training else None


def not_scalar(node: Node) -> Why | None:
    """Reject a scalar input."""
    return None if _shape(node, 0) else ("shape", "a scalar, takes one dimension or more")


def hard_sigmoid(node: Node) -> Why | None:
    """Reject parameters of 0: OpenVINO uses the default instead."""
    return _not_zero(node, "alpha", "beta")


def selu(node: Node) -> Why | None:
    """Reject parameters of 0: OpenVINO uses the default instead."""
    return _not_zero(node, "alpha", "gamma")


def _not_zero(node: Node, *names: str) -> Why | None:
    for name in names:
        if node.attr(name, 1.0) == 0:
            return "attribute", f"{name} is 0, takes another number"
    return None


def top_k(node: Node) -> Why | None:
    """Reject TopK whose indices are read: ONNX puts the first of equal elements first, OpenVINO any of them."""
    value = node.outputs[1] if len(node.outputs) > 1 else None
    if value is not None and (value.uses or value.is_graph_output()):
        return "order", f"{value.name!r} is read; it does not keep equal elements in order"
    return None


def pool(node: Node) -> Why | None:
    """Reject ceil_mode if the last window begins in the padding: OpenVINO counts that window, ONNX drops it."""
    wrong = _outputs(node, 1)
    if wrong or not node.attr("ceil_mode", 0):
        return wrong
    kernel: list[int] = node.attr("kernel_shape")
    rank = len(kernel)
    pads, strides = node.attr("pads", [0] * 2 * rank), node.attr("strides", [1] * rank)
    for axis, (size, step) in enumerate(zip(_shape(node, 0)[2:], strides, strict=True)):
        reach = node.attr("dilations", [1] * rank)[axis] * (kernel[axis] - 1) + 1
        if not isinstance(size, int):
            return "shape", f"ceil_mode with {size} elements in dimension {axis + 2}, takes numbers"
        steps = -(-(size + pads[axis] + pads[axis + rank] - reach) // step)
        if steps * step >= size + pads[axis]:
            return "attribute", "ceil_mode with a window that begins in the padding"
    return None


def _require_fixed_shape(node: Node, index: int) -> Why | None:
    value = node.inputs[index] if _has_input(node, index) else None
    if value is None or all(isinstance(dim, int) for dim in value.shape or ()):
        return None
    return "shape", f"{value.name!r} is {value.type}, takes a fixed shape"


def weights(node: Node) -> Why | None:
    """Require weights and bias of a fixed shape, which OpenVINO compiles in."""
    return _require_fixed_shape(node, 1) or _require_fixed_shape(node, 2)


def slope(node: Node) -> Why | None:
    """Reject a slope whose shape is known only at run time: OpenVINO fails, or returns nothing."""
    return _require_fixed_shape(node, 1)


def one_hot(node: Node) -> Why | None:
    """Require a fixed shape of `values`, which OpenVINO counts when it reads the model."""
    return not_scalar(node) or _require_fixed_shape(node, 2)


def _open_image(node: Node) -> Why | None:
    """Reject an image that may turn out empty at run time."""
    value = node.inputs[0]
    if value is None or all(isinstance(dim, int) for dim in _shape(node, 0)[2:]):
        return None
    return "shape", f"{value.name!r} may be an empty image, which it computes otherwise; takes a fixed size"


def global_max_pool(node: Node) -> Why | None:
    """Reject images that may be empty: ONNX returns -infinity for them, OpenVINO the smallest float."""
    return _open_image(node)


def conv_integer(node: Node) -> Why | None:
    """Reject padded images that may be empty: OpenVINO reads out of bounds if there is nothing but padding."""
    padded = any(node.attr("pads", ())) or node.attr("auto_pad", "NOTSET").startswith("SAME")
    return weights(node) or (_open_image(node) if padded else None)


def matmul_integer(node: Node) -> Why | None:
    """Reject a vector without a zero point: OpenVINO returns the product with one dimension too many."""
    zero_points = _has_input(node, 2) or _has_input(node, 3)
    return None if zero_points or len(_shape(node, 0)) > 1 else ("shape", "a vector without a zero point, takes a matrix")


def batch_norm(node: Node) -> Why | None:
    """Reject inputs without channels, training mode and extra outputs."""
    if len(_shape(node, 0)) < 2:
        return "shape", "fewer than 2 dimensions"
    return _attributes(node, training_mode=0) or _outputs(node, 1)


def one_output(node: Node) -> Why | None:
    """Reject a node if more than its first output is read."""
    return _outputs(node, 1)


def recurrent(node: Node) -> Why | None:
    """Reject peepholes, activations and other options of recurrent layers that OpenVINO lacks."""
    if _has_input(node, 7):
        return "attribute", "peepholes, which it leaves out"
    if "activations" in node.attributes or "clip" in node.attributes:
        return "attribute", "activations or clip are given, takes the default"
    return _attributes(node, layout=0, input_forget=0) or weights(node)


def attention(node: Node) -> Why | None:
    """Reject sliding windows, and a node whose fourth output is read."""
    return _attributes(node, left_window_size=-1, right_window_size=-1) or _outputs(node, 3)


def grid_sample(node: Node) -> Why | None:
    """Reject volumes, and images that may be empty: OpenVINO reads out of bounds."""
    rank = len(_shape(node, 0))
    if rank != 4:
        return "shape", f"{rank} dimensions, takes 4"
    return _open_image(node)


_COORDINATES = ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn")


def resize(node: Node) -> Why | None:
    """Reject modes of Resize in which OpenVINO differs from ONNX."""
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in _COORDINATES:
        return "attribute", f"coordinate_transformation_mode is {mode}, takes {', '.join(_COORDINATES)}"
    if mode == "align_corners" and _has_input(node, 2):
        return "attribute", "align_corners by scales, takes sizes"
    output = node.output.shape
    if output is None or not all(map(same, _shape(node, 0)[:2], output[:2])):
        return "shape", "images or channels may be resized too, takes the dimensions behind them"
    return _attributes(node, antialias=0, exclude_outside=0, keep_aspect_ratio_policy="stretch")


def roi_align(node: Node) -> Why | None:
    """Require a fixed number of samples with half_pixel: for boxes without area ONNX returns 0, OpenVINO divides by 0."""
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    if node.attr("coordinate_transformation_mode", default) == "half_pixel" and not node.attr("sampling_ratio", 0):
        return "attribute", "sampling_ratio is 0 with half_pixel, takes a number of samples"
    return _attributes(node, mode="avg")


def split(node: Node) -> Why | None:
    """Reject a Split into equal parts if the size is not known to be divisible."""
    if _has_input(node, 1) or "split" in node.attributes:
        return None
    shape, axis, parts = _shape(node, 0), node.attr("axis", 0), len(node.outputs)
    size = shape[axis]
    even = isinstance(size, int) and size % parts == 0
    return None if even else ("shape", f"{parts} equal parts of {size}, takes a number that they divide")


def gather_elements(node: Node) -> Why | None:
    """Require an index of the data's shape, except along the axis."""
    data, index = _shape(node, 0), _shape(node, 1)
    axis = node.attr("axis", 0) % len(data)
    for k, (one, other) in enumerate(zip(data, index, strict=True)):
        if k != axis and not same(one, other):
            return "shape", f"an index with {other} elements in dimension {k}, takes {one}, as the data"
    return None


def pad(node: Node) -> Why | None:
    """Reject modes of Pad other than constant, edge and reflect."""
    mode = node.attr("mode", "constant")
    return None if mode in ("constant", "edge", "reflect") else ("attribute", f"mode is {mode}, takes constant, edge, reflect")


def space_to_depth(node: Node) -> Why | None:
    """Reject modes other than DCR."""
    return _attributes(node, mode="DCR")


def softmax(node: Node) -> Why | None:
    """Require the last axis in opsets 11 and 12, where ONNX flattens from the axis on and OpenVINO does not."""
    rank = len(_shape(node, 0))
    if node.version in (11, 12) and rank and node.attr("axis", 1) % rank != rank - 1:
        return "attribute", f"axis is {node.attr('axis', 1)} in opset {node.version}, takes the last"
    return None


def dequantize(node: Node) -> Why | None:
    """Reject blocked scales."""
    return _attributes(node, block_size=0)


_QUANTISED = ("ConvInteger", "DequantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul")


def quantize(node: Node) -> Why | None:
    """Reject odd zero points unless an integer operator reads the result: OpenVINO adds them before it rounds halves to even."""
    zero = node.inputs[2] if _has_input(node, 2) else None
    odd = zero is not None and zero.constant is not None and (zero.constant % 2).any()
    return _attributes(node, block_size=0) or (_check_rounding(node, _QUANTISED) if odd else None)


def dynamic_quantize(node: Node) -> Why | None:
    """Reject results that any operator but an integer product reads: OpenVINO rounds halves differently."""
    return _check_rounding(node, ("ConvInteger", "MatMulInteger"))


def _check_rounding(node: Node, takers: tuple[str, ...]) -> Why | None:
    """Require that only `takers` read the result: rounding halves differently is one quantization step, too much for an output."""
    y = node.output
    fine = all(reader.op_type in takers for reader in y.readers) and not y.is_graph_output()
    return None if fine else ("rounding", f"{y.name!r} is read by more than {', '.join(takers)}; halves are rounded otherwise")
