"""Operators that onnxruntime has but computes differently from the ONNX specification: the (code, detail) of a Rejection, or None.

Some of them end the process on tensors without elements, through a division by zero or an endless loop. They are accepted only if
the dimensions involved are known not to be 0.
"""

from collections.abc import Callable

from ort_lite.graph import Node, Value
from ort_lite_onnxruntime.recurrent import OLDEST, may_be_empty

Why = tuple[str, str]


def limit(node: Node, provider: str) -> Why | None:
    """Return the reason why an execution provider of onnxruntime should not run a node that it claims, or None."""
    found = _LIMITS.get(node.operator) or _PROVIDERS.get(provider.partition(".")[0], {}).get(node.operator)
    return found(node) if found is not None else None


def _input(node: Node, index: int) -> Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _imprecise(node: Node) -> Why | None:
    return "precision", f"{node.op_type} is off by 1e-5 of its largest element"


def _dynamic_scale(node: Node) -> Why | None:
    """Reject a scale that is multiplied by 1 / 255 instead of divided by 255: its last bits decide how halves are rounded."""
    return "precision", "its scale is off by 1e-7 of itself, which moves halves by one step, and is 0 for zeros"


def _repeats(node: Node) -> Why | None:
    """Require constant repeats: with others, elements are wrong if four axes repeat."""
    repeats = _input(node, 1)
    return None if repeats is not None and repeats.constant is not None else ("shape", "repeats that are not constant")


def _random(node: Node) -> Why | None:
    return "random", "it draws other numbers than the CPU provider for the same seed"


def _affine_grid(node: Node) -> Why | None:
    """Require a known number of matrices: onnxruntime insists that `size` begins with it, ONNX does not."""
    return _require_fixed_dims(node, 0, 0, 1)


def _require_fixed_dims(node: Node, index: int, first: int, stop: int | None) -> Why | None:
    """Require dimensions first to stop of an input to be known and not 0."""
    value = _input(node, index)
    if value is None:
        return None
    dims = value.shape[first:stop] if value.shape is not None else ("unknown",)
    fixed = all(isinstance(dim, int) and dim for dim in dims)
    return None if fixed else ("shape", f"{', '.join(map(str, dims))} of its dimensions, takes numbers above 0")


def _normalize(node: Node) -> Why | None:
    """Reject a normalization over axes that may be empty."""
    return _require_fixed_dims(node, 0, node.attr("axis", -1), None)


def _heads(node: Node) -> Why | None:
    """Require a known number of heads: onnxruntime divides by it. For inputs of rank 3 it is an attribute."""
    return next((why for k in (0, 1, 2, 4, 5) if (why := _heads_of(node, k)) is not None), None)


def _heads_of(node: Node, index: int) -> Why | None:
    value = _input(node, index)
    return None if value is None or len(value.shape or ()) == 3 else _require_fixed_dims(node, index, 1, 2)


def _conv(node: Node) -> Why | None:
    """Reject weights that may have no channels: onnxruntime loops forever."""
    return _require_fixed_dims(node, 1, 0, None)


def _conv_transpose(node: Node) -> Why | None:
    """Reject volumes that may be empty: onnxruntime reads memory out of bounds."""
    value = _input(node, 0)
    flat = value is not None and value.shape is not None and len(value.shape) < 5
    return None if flat else _require_fixed_dims(node, 0, 2, None)


def _recurrent(node: Node) -> Why | None:
    """Reject inputs that may be empty, unless an If can be put around the node: see recurrent.py."""
    if not may_be_empty(node):
        return None
    if node.version < OLDEST or node.attr("layout", 0):
        return (
            "shape",
            f"lengths that may be 0 with opset {node.version} and layout {node.attr('layout', 0)}, takes {OLDEST} and 0",
        )
    return _require_fixed_dims(node, 1, 0, None)


def _attention(node: Node) -> Why | None:
    if len(node.outputs) > 3 and node.outputs[3] is not None:
        return "output", f"{node.outputs[3].name!r}, the scores, lacks the mask where it should have it"
    if _input(node, 3) is not None and _input(node, 6) is not None:
        return "attribute", "a mask with nonpad_kv_seqlen"
    return ("type", "float16 is less exact than ONNX asks for") if node.output.dtype == "float16" else _heads(node)


def _conv_integer(node: Node) -> Why | None:
    zero = _input(node, 3)
    if zero is None or zero.shape in ((), (1,)):
        return None
    return "shape", f"{zero.name!r} is {zero.type}, takes one zero point for all weights"


def _dropout(node: Node) -> Why | None:
    mode = _input(node, 2)
    off = mode is None or (mode.constant is not None and not mode.constant.any())
    return None if off else _random(node)


def _max_unpool(node: Node) -> Why | None:
    return None if _input(node, 2) is None else ("attribute", "output_shape, which moves no element")


def _no_bool(node: Node) -> Why | None:
    value = _input(node, 0)
    return ("type", "bool, whose maximum of nothing is an error") if value is not None and value.dtype == "bool" else None


def _scan(node: Node) -> Why | None:
    """Reject sequences that may be empty: version 8 reads out of bounds, and later versions divide by the size of an axis."""
    if node.version < 9:
        return "opset", f"Scan of opset {node.version}, takes 9 and newer"
    return next((why for k in range(len(node.inputs)) if (why := _require_fixed_dims(node, k, 0, None)) is not None), None)


def _resize(node: Node) -> Why | None:
    mode = node.attr("coordinate_transformation_mode")
    if mode == "tf_crop_and_resize" and node.attr("antialias", 0):
        return "attribute", "antialias with tf_crop_and_resize, takes one of the two"
    scaled = mode == "align_corners" and _input(node, 2) is not None
    return ("attribute", "align_corners by scales, takes sizes") if scaled else None


def _col2im(node: Node) -> Why | None:
    """Reject pads: onnxruntime adds blocks that lie in wide padding to the image."""
    return ("attribute", "pads, takes none") if any(node.attr("pads", ())) else None


def _lrn(node: Node) -> Why | None:
    value = _input(node, 0)
    planar = value is not None and len(value.shape or ()) == 4
    return None if planar else ("shape", "takes images of two axes")


def _slice(node: Node) -> Why | None:
    value = _input(node, 0)
    return ("shape", "a scalar, takes one axis or more") if value is not None and value.shape == () else None


def _rotary_embedding(node: Node) -> Why | None:
    """Reject position ids with more steps than the caches have rows, whatever the ids are."""
    x, cache = _input(node, 0), _input(node, 1)
    if _input(node, 3) is None or x is None or cache is None:
        return None
    shape, rows = x.shape or (), (cache.shape or (None,))[0]
    steps = shape[-2] if len(shape) > 2 else None
    fit = steps == rows if not (isinstance(steps, int) and isinstance(rows, int)) else steps <= rows
    return None if fit and steps is not None else ("shape", f"{steps} steps, takes as many as the caches have rows: {rows}")


def _image(node: Node) -> Why | None:
    """Reject an image that may have no elements: onnxruntime raises an error."""
    return _require_fixed_dims(node, 0, 2, None)


def _grid_sample(node: Node) -> Why | None:
    return None if node.attr("padding_mode", "zeros") == "zeros" else _image(node)


def _pad(node: Node) -> Why | None:
    return _require_fixed_dims(node, 0, 0, None) if node.attr("mode", "constant") == "wrap" else None


def _not_empty(node: Node) -> Why | None:
    return _require_fixed_dims(node, 0, 0, None)


def _inverse(node: Node) -> Why | None:
    return "precision", "a singular matrix gives NaN instead of infinities"


def _skip(node: Node) -> Why | None:
    """Require a skip of the input's shape: onnxruntime broadcasts one row along a batch, but not over two axes."""
    x, skip = _input(node, 0), _input(node, 1)
    same = x is not None and skip is not None and x.shape is not None and x.shape == skip.shape
    return None if same else ("shape", "a skip of another shape than the input's")


def _batch(node: Node) -> Why | None:
    """Require one scale and one zero point of matrices in a batch: onnxruntime takes one per column of a single matrix alone."""
    b, others = _input(node, 1), [_input(node, index) for index in (3, 5)]
    single = b is not None and b.shape is not None and len(b.shape) == 2
    several = any(one is not None and one.shape != () for one in others)
    return ("shape", "scales or zero points per column of matrices in a batch") if several and not single else None


_LIMITS: dict[str, Callable[[Node], Why | None]] = {
    "AffineGrid": _affine_grid,
    "Attention": _attention,
    "Bernoulli": _random,
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DFT": _imprecise,
    "Dropout": _dropout,
    "GRU": _recurrent,
    "GlobalMaxPool": _image,
    "GridSample": _grid_sample,
    "LRN": _lrn,
    "LSTM": _recurrent,
    "LayerNormalization": _normalize,
    "MaxUnpool": _max_unpool,
    "Multinomial": _random,
    "Pad": _pad,
    "RMSNormalization": _normalize,
    "RNN": _recurrent,
    "RandomNormal": _random,
    "RandomNormalLike": _random,
    "RandomUniform": _random,
    "RandomUniformLike": _random,
    "ReduceMax": _no_bool,
    "ReduceMin": _no_bool,
    "Resize": _resize,
    "RotaryEmbedding": _rotary_embedding,
    "STFT": _imprecise,
    "Scan": _scan,
    "Slice": _slice,
    "SoftmaxCrossEntropyLoss": _not_empty,
    "StringNormalizer": _not_empty,
    "com.microsoft.ConvTransposeWithDynamicPads": _image,
    "com.microsoft.FusedConv": _conv,
    "com.microsoft.GridSample": _grid_sample,
    "com.microsoft.Inverse": _inverse,
    "com.microsoft.MatMulIntegerToFloat": _batch,
    "com.microsoft.QLinearGlobalAveragePool": _image,
    "com.microsoft.SkipLayerNormalization": _skip,
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip,
}

_PROVIDERS: dict[str, dict[str, Callable[[Node], Why | None]]] = {
    "OpenVINOExecutionProvider": {"DynamicQuantizeLinear": _dynamic_scale, "Tile": _repeats},
}
"""The limits of single execution providers, by the part of their name before the first period."""
