"""Operator families: one file each, imported when a model first needs one of its operators."""

_ONNX = {
    "cast": "Cast CastLike",
    "control_flow": "If Loop Scan",
    "conv": "Conv",
    "conv_transpose": "ConvTranspose",
    "fill": "Constant ConstantOfShape EyeLike Range",
    "gather": "Gather GatherElements GatherND Scatter ScatterElements ScatterND",
    "integer_conv": "ConvInteger QLinearConv",
    "integer_matmul": "MatMulInteger QLinearMatMul",
    "matmul": "Gemm MatMul",
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization RMSNormalization"
    ),
    "pooling": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool",
    "quantization": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "recurrent": "GRU LSTM RNN",
    "reductions": (
        "ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare"
    ),
    "reshape": "DepthToSpace Dropout Expand Flatten Identity Reshape SpaceToDepth Squeeze Tile Transpose Unsqueeze",
    "resize": "Resize Upsample",
    "selection": "Compress NonZero OneHot TopK Trilu Unique",
    "shape": "Shape Size",
    "slices": "Concat Pad Slice Split",
    "softmax": "Hardmax LogSoftmax Softmax",
    "elementwise": (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh Div "
        "Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean "
        "Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum "
        "Swish Tan Tanh ThresholdedRelu Where Xor"
    ),
}
_MICROSOFT: dict[str, str] = {
    "conv": "FusedConv",
    "integer_conv": "QLinearConv",
    "integer_matmul": "DynamicQuantizeMatMul MatMulIntegerToFloat QGemm",
    "matmul": "FusedGemm FusedMatMul",
    "elementwise": "Gelu QuickGelu",
    "qlinear": (
        "QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax"
    ),
    "quantization": "DequantizeLinear QuantizeLinear",
    "quantized_lstm": "DynamicQuantizeLSTM",
}
_ML: dict[str, str] = {}

FAMILIES: dict[tuple[str, str], str] = {
    (domain, op_type): family
    for domain, families in (("", _ONNX), ("com.microsoft", _MICROSOFT), ("ai.onnx.ml", _ML))
    for family, op_types in families.items()
    for op_type in op_types.split()
}
"""(domain, op_type) -> the file here that lowers it."""
