"""Generated models of the operators that move, combine and reduce elements, compared with onnxruntime and onnx.reference.

The models are the same in each run; `python -m tests.generated` makes others. Products, convolutions and pools, whose kernels
work in blocks, have random tests of their own with larger sizes.
"""

import pytest

from tests.generated.claims import generator
from tests.generated.judge import judge
from tests.generated.verdict import DIFFERENT, INVALID

pytestmark = pytest.mark.slow

MODELS = 60
FAMILIES = {
    "arithmetic": "Add Sub Mul Div Mod Pow Max Min Sum Mean Clip Abs Neg Sign Sqrt Exp Log Reciprocal Floor Round Erf Sin Atan Relu "
    "Sigmoid Tanh",
    "logic": "Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift Where "
    "IsNaN IsInf",
    "casts": "Cast CastLike",
    "indexing": "Gather GatherElements GatherND ScatterElements ScatterND NonZero Compress OneHot",
    "normalization": "BatchNormalization GroupNormalization InstanceNormalization LayerNormalization LpNormalization LRN "
    "RMSNormalization",
    "quantization": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    "reductions": "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum "
    "ReduceLogSumExp ArgMax ArgMin CumSum CumProd TopK Softmax LogSoftmax Hardmax",
    "resize": "Resize",
    "shaping": "Transpose Reshape Slice Concat Split Pad Expand Tile Unsqueeze Squeeze Flatten Trilu DepthToSpace SpaceToDepth Range",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_models_agree_with_the_oracles(family: str) -> None:
    operators = FAMILIES[family].split()
    source = generator(0, operators)
    models = [found for number in range(MODELS) if (found := source.model(number, operators)) is not None]
    assert len(models) > 0.9 * MODELS
    for found in models:
        verdict = judge(found.model, found.feeds)
        unexplained = [f"{one.oracle}: {one.text}" for one in verdict.differences if not one.explanation]
        assert verdict.status not in (DIFFERENT, INVALID), (
            f"model {found.number}, {found.target}: {unexplained or verdict.invalid}"
        )
