"""Allowed values of attributes: ONNX's documents state them, the schemas of its package do not.

`generate` writes them into the text.

A limit is spelled as `ort_lite.inference.schema_text` reads it. What onnxruntime runs and defines is not ruled out: sizes of 0,
an empty `auto_pad`, pads of a convolution that cut.
"""

_FLOATS = "=1/10/11/16"  # FLOAT, FLOAT16, DOUBLE, BFLOAT16
_AUTO_PAD = "=/NOTSET/SAME_UPPER/SAME_LOWER/VALID"
_COORDINATES = (
    "=half_pixel/half_pixel_symmetric/pytorch_half_pixel/align_corners/asymmetric/tf_crop_and_resize/tf_half_pixel_for_nn"
)
_REDUCTIONS = "=none/add/mul/min/max"
_DIRECTIONS = "=forward/reverse/bidirectional"

BY_NAME = {
    "approximate": "=none/tanh",
    "auto_pad": _AUTO_PAD,
    "batch_dims": ">=0",
    "blocksize": ">=1",
    "case_change_action": "=LOWER/UPPER/NONE",
    "center_point_box": "=0/1",
    "dilations": ">=1",
    "dtype": "=type",
    "fmod": "=0/1",
    "group": ">=1",
    "hidden_size": ">=1",
    "keep_aspect_ratio_policy": "=stretch/not_larger/not_smaller",
    "kernel_shape": ">=1",
    "kv_num_heads": ">=1",
    "layout": "=0/1",
    "max_gram_length": ">=1",
    "max_skip_count": ">=0",
    "min_gram_length": ">=1",
    "num_groups": ">=1",
    "num_outputs": ">=1",
    "num_scan_inputs": ">=1",
    "offset_group": ">=1",
    "output_datatype": "=type",
    "output_dtype": "=type0",
    "output_height": ">=0",
    "output_padding": ">=0",
    "output_shape": ">=0",
    "output_width": ">=0",
    "padding_mode": "=zeros/border/reflection",
    "pixel_format": "=RGB/BGR/Grayscale",
    "pooled_shape": ">=1",
    "q_num_heads": ">=1",
    "round_mode": "=up/down/nearest",
    "sample_size": ">=1",
    "sampling_ratio": ">=0",
    "softmax_precision": _FLOATS,
    "stash_type": _FLOATS,
    "storage_order": "=0/1",
    "strides": ">=1",
}
"""Of an attribute wherever it occurs."""

BY_OPERATOR = {
    "AveragePool": {"pads": ">=0"},
    "BitShift": {"direction": "=LEFT/RIGHT"},
    "Cast": {"to": "=type"},
    "DepthToSpace": {"mode": "=DCR/CRD"},
    "DequantizeLinear": {"block_size": ">=0"},
    "GRU": {"direction": _DIRECTIONS},
    "GlobalLpPool": {"p": ">=1"},
    "GridSample": {"mode": "=bilinear/nearest/bicubic/linear/cubic"},
    "LRN": {"size": ">=1"},
    "LSTM": {"direction": _DIRECTIONS},
    "LpNormalization": {"p": "=1/2"},
    "LpPool": {"p": ">=1", "pads": ">=0"},
    "MaxPool": {"pads": ">=0"},
    "NegativeLogLikelihoodLoss": {"reduction": "=none/sum/mean"},
    "Normalizer": {"norm": "=MAX/L1/L2"},
    "Pad": {"mode": "=constant/reflect/edge/wrap"},
    "QuantizeLinear": {"block_size": ">=0"},
    "RNN": {"direction": _DIRECTIONS},
    "RandomNormal": {"shape": ">=0"},
    "RandomUniform": {"shape": ">=0"},
    "Resize": {
        "coordinate_transformation_mode": _COORDINATES,
        "mode": "=nearest/linear/cubic",
        "nearest_mode": "=/round_prefer_floor/round_prefer_ceil/floor/ceil",
    },
    "RoiAlign": {"coordinate_transformation_mode": "=half_pixel/output_half_pixel", "mode": "=avg/max"},
    "Scatter": {"reduction": _REDUCTIONS},
    "ScatterElements": {"reduction": _REDUCTIONS},
    "ScatterND": {"reduction": _REDUCTIONS},
    "SoftmaxCrossEntropyLoss": {"reduction": "=none/sum/mean"},
    "TfIdfVectorizer": {"mode": "=TF/IDF/TFIDF"},
    "Upsample": {"mode": "=nearest/linear/bilinear/cubic"},
}
"""Of an attribute of one operator, in the place of what `BY_NAME` says."""


def limit(op_type: str, attribute: str, kind: str) -> str:
    """Return the limit behind the kind of an attribute; "" if any value is good. Names of types are STRING before opset 6."""
    found = BY_OPERATOR.get(op_type, {}).get(attribute)
    found = BY_NAME.get(attribute, "") if found is None else found
    number = found.startswith((">=", "=type")) or found.replace("/", "")[1:].isdigit()
    return found if number == kind.startswith("INT") and kind in ("INT", "INTS", "STRING") else ""
