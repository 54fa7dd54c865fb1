"""Shape rules, one operator family a file, imported when a model first needs one of its operators.

What a rule is, `ort_lite.inference` says.
"""

from functools import partial
from importlib import import_module

from ort_lite.inference import RuleFamily, ShapeRule

_ONNX = {
    "attention": "Attention LinearAttention RotaryEmbedding",
    "control_flow": "If Loop Scan",
    "conv": "CausalConvWithState Col2Im Conv ConvInteger ConvTranspose DeformConv QLinearConv",
    "elementwise": (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
        "CastLike Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid "
        "HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow "
        "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh "
        "ThresholdedRelu Xor"
    ),
    "gather": "Gather GatherElements GatherND Scatter ScatterElements ScatterND TensorScatter",
    "matmul": "Det Einsum Gemm MatMul MatMulInteger QLinearMatMul",
    "normalization": (
        "BatchNormalization GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization "
        "MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization Softmax"
    ),
    "pooling": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool MaxUnpool RoiAlign",
    "quantization": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "random": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "recurrent": "GRU LSTM RNN",
    "reductions": (
        "CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare"
    ),
    "reshape": "DepthToSpace Flatten Reshape ReverseSequence SpaceToDepth Squeeze Transpose Trilu Unsqueeze",
    "resize": "AffineGrid CenterCropPad GridSample Resize Upsample",
    "selection": "ArgMax ArgMin Compress NonMaxSuppression NonZero OneHot TopK Unique Where",
    "sequences": (
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
        "SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence"
    ),
    "shape_arithmetic": "Constant ConstantOfShape EyeLike Range Shape Size",
    "signal": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    "slice": "Concat Expand Pad Slice Split Tile",
    "text": "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "training": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
}
_MICROSOFT = {
    "fused": "FusedConv FusedGemm Gelu QuickGelu",
    "microsoft": (
        "BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu BifurcationDetector BranchwiseRMSNorm CDist "
        "ConvTransposeWithDynamicPads CropAndResize DequantizeLinear DynamicTimeWarping ExpandDims FastGelu "
        "FusedMatMul GatedAdd GatedRMSNorm GatherND GemmFastGelu GridSample GroupNorm Inverse IsAllFinite "
        "MatMulBnb4 MatMulFpQ4 MatMulNBits MaxpoolWithMask MoE MurmurHash3 NGramRepeatBlock NhwcConv NhwcFusedConv Pad QMoE "
        "QuantizeLinear Range RotaryEmbedding SampleOp ScaledSiLU SkipLayerNormalization "
        "SkipSimplifiedLayerNormalization SparseToDenseMatMul Tokenizer TransposeMatMul Trilu UnfoldTensor Unique "
        "WordConvEmbedding"
    ),
    "microsoft_attention": (
        "Attention CausalConvWithState DecoderMaskedMultiHeadAttention EmbedLayerNormalization GroupQueryAttention LinearAttention "
        "MultiHeadAttention QAttention QEmbedLayerNormalization SparseAttention"
    ),
    "microsoft_generation": "BeamSearch GreedySearch Sampling",
    "microsoft_quantized": (
        "AttnLSTM DynamicQuantizeLSTM DynamicQuantizeMatMul GatherBlockQuantized MatMulInteger16 MatMulIntegerToFloat "
        "MulInteger NhwcMaxPool QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool "
        "QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere ReduceSumInteger"
    ),
}
_ML = {
    "ml": (
        "ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder "
        "LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble "
        "TreeEnsembleClassifier TreeEnsembleRegressor ZipMap"
    ),
}
_PREVIEW = {
    "attention": "FlexAttention",
}
_TRAINING = {
    "training": "Adagrad Adam Gradient Momentum",
}

_DOMAINS = {
    "": _ONNX,
    "com.microsoft": _MICROSOFT,
    "ai.onnx.ml": _ML,
    "ai.onnx.preview": _PREVIEW,
    "ai.onnx.preview.training": _TRAINING,
}


def rules_of(family: str) -> list[ShapeRule]:
    """The rules in a file of this folder."""
    found: list[ShapeRule] = import_module(f"ort_lite_transforms.shapes.{family}").RULES
    return found


FAMILIES: dict[str, RuleFamily] = {
    family: RuleFamily(
        [(domain, op_type) for domain, families in _DOMAINS.items() for op_type in families.get(family, "").split()],
        partial(rules_of, family),
    )
    for family in dict.fromkeys(name for families in _DOMAINS.values() for name in families)
}
"""By file; every (domain, op_type) that it has rules for."""
