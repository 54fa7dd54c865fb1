"""Operator families: one file each, imported when a model first needs one of its operators."""

_ONNX = {
    "attention": "Attention",
    "cast": "Cast CastLike",
    "control_flow": "If Loop Scan",
    "conv": "Conv",
    "conv_transpose": "ConvTranspose",
    "data_sized": "Compress NonZero Unique",
    "deform_conv": "DeformConv",
    "determinant": "Det",
    "detection": "NonMaxSuppression",
    "einsum": "Einsum",
    "fill": "Constant ConstantOfShape EyeLike Range",
    "fourier": "DFT STFT",
    "gather": "Gather GatherElements GatherND Scatter ScatterElements ScatterND",
    "images": "ImageDecoder",
    "integer_conv": "ConvInteger QLinearConv",
    "integer_matmul": "MatMulInteger QLinearMatMul",
    "linear_attention": "CausalConvWithState LinearAttention",
    "losses": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "matmul": "Gemm MatMul",
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization "
        "MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization"
    ),
    "pooling": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool",
    "quantization": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "random": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "rearranging": "BitCast ReverseSequence",
    "recurrent": "GRU LSTM RNN",
    "reductions": (
        "ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
        "ReduceSum ReduceSumSquare"
    ),
    "reshape": "DepthToSpace Dropout Expand Flatten Identity Reshape SpaceToDepth Squeeze Tile Transpose Unsqueeze",
    "regions": "MaxRoiPool RoiAlign",
    "resize": "Resize Upsample",
    "rotary": "RotaryEmbedding",
    "sampling": "AffineGrid GridSample",
    "selection": "OneHot TopK Trilu",
    "sequences": (
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
        "SequenceInsert SequenceLength SequenceMap SplitToSequence"
    ),
    "shape": "Shape Size",
    "slices": "Concat Pad Slice Split",
    "softmax": "Hardmax LogSoftmax Softmax",
    "tensor_scatter": "TensorScatter",
    "tf_idf": "TfIdfVectorizer",
    "unpooling": "CenterCropPad Col2Im MaxUnpool",
    "windows": "BlackmanWindow HammingWindow HannWindow MelWeightMatrix",
    "elementwise": (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh Div "
        "Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean "
        "Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum "
        "SwiGLU Swish Tan Tanh ThresholdedRelu Where Xor"
    ),
}
_MICROSOFT: dict[str, str] = {
    "microsoft.bifurcation": "BifurcationDetector",
    "conv": "FusedConv",
    "data_sized": "Unique",
    "determinant": "Inverse",
    "microsoft.distances": "CDist",
    "fill": "Range",
    "gather": "GatherND",
    "microsoft.group_query_attention": "GroupQueryAttention",
    "integer_conv": "QLinearConv",
    "integer_matmul": "DynamicQuantizeMatMul MatMulIntegerToFloat QGemm",
    "linear_attention": "CausalConvWithState LinearAttention",
    "matmul": "FusedGemm FusedMatMul",
    "microsoft.matmul_n_bits": "MatMulNBits",
    "microsoft.attention": "Attention DecoderMaskedMultiHeadAttention MultiHeadAttention",
    "microsoft.murmur_hash": "MurmurHash3",
    "microsoft.normalization": "BiasGelu EmbedLayerNormalization FastGelu SkipLayerNormalization SkipSimplifiedLayerNormalization",
    "elementwise": "Gelu QuickGelu",
    "pooling": "NhwcMaxPool",
    "microsoft.generation.sampling": "Sampling",
    "microsoft.generation.search": "BeamSearch GreedySearch",
    "microsoft.q_attention": "QAttention",
    "microsoft.qlinear": (
        "QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax"
    ),
    "quantization": "DequantizeLinear QuantizeLinear",
    "microsoft.quantized_lstm": "DynamicQuantizeLSTM",
    "reshape": "ExpandDims",
    "rotary": "RotaryEmbedding",
    "selection": "Trilu",
    "slices": "Pad",
}
_PREVIEW = {"flex_attention": "FlexAttention"}
_TRAINING = {"training": "Adagrad Adam Momentum"}
_ML: dict[str, str] = {
    "ml.features": "ArrayFeatureExtractor FeatureVectorizer OneHotEncoder",
    "ml.labels": "LabelEncoder",
    "ml.linear": "LinearClassifier LinearRegressor",
    "ml.maps": "CastMap DictVectorizer ZipMap",
    "ml.scaling": "Binarizer Imputer Normalizer Scaler",
    "ml.svm": "SVMClassifier SVMRegressor",
    "ml.trees": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
}

# Nodes with strings among their inputs or outputs.
_ONNX_STRINGS = {
    "strings": (
        "Cast CastLike CenterCropPad Col2Im Compress Concat DepthToSpace Equal Expand Flatten Gather GatherElements GatherND "
        "GridSample NonZero OneHot Pad Reshape Resize ReverseSequence Scatter ScatterElements ScatterND Slice SpaceToDepth Split "
        "Squeeze TensorScatter Tile Transpose Trilu Unique Unsqueeze Upsample Where"
    ),
    "text": "RegexFullMatch StringConcat StringNormalizer StringSplit",
    "tf_idf": "TfIdfVectorizer",
}
# Nodes with complex numbers among their inputs, of which one kernel moves or sums the parts.
_ONNX_COMPLEX = {
    "complex_numbers": (
        "CenterCropPad Col2Im Concat DepthToSpace Expand Gather GatherElements GatherND GridSample OneHot Pad Resize ReverseSequence "
        "Scatter ScatterElements ScatterND Slice SpaceToDepth Split TensorScatter Tile Transpose Trilu Upsample Where"
    ),
}
_MICROSOFT_STRINGS = {
    "strings": "ExpandDims GatherND Unique",
    "microsoft.murmur_hash": "MurmurHash3",
    "microsoft.tokenizer": "Tokenizer",
}
_MICROSOFT_COMPLEX = {"complex_numbers": "GatherND"}
_ML_STRINGS = {
    "ml.features": "OneHotEncoder",
    "ml.labels": "CategoryMapper LabelEncoder",
    "strings": "ArrayFeatureExtractor",
}


def _by_operator(*domains: tuple[str, dict[str, str]]) -> dict[tuple[str, str], str]:
    return {
        (domain, op_type): family
        for domain, families in domains
        for family, op_types in families.items()
        for op_type in op_types.split()
    }


FAMILIES = _by_operator(
    ("", _ONNX),
    ("com.microsoft", _MICROSOFT),
    ("ai.onnx.ml", _ML),
    ("ai.onnx.preview.training", _TRAINING),
    ("ai.onnx.preview", _PREVIEW),
)
"""(domain, op_type) -> the file here that lowers it."""
STRING_FAMILIES = _by_operator(("", _ONNX_STRINGS), ("com.microsoft", _MICROSOFT_STRINGS), ("ai.onnx.ml", _ML_STRINGS))
"""As FAMILIES, for nodes that read or make strings; such a node of an operator not in here is no special case."""
COMPLEX_FAMILIES = _by_operator(("", _ONNX_COMPLEX), ("com.microsoft", _MICROSOFT_COMPLEX))
"""As FAMILIES, for nodes that read complex numbers."""
