"""Operators without roundings of their own: from the same operands, every implementation computes the same bits."""

_NAMES = (
    "Abs And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil CenterCropPad Clip"
    " Compress Concat ConcatFromSequence ConstantOfShape DepthToSpace Equal Expand EyeLike Flatten Floor Gather GatherElements"
    " GatherND GlobalMaxPool Greater GreaterOrEqual Hardmax Identity IsInf IsNaN Less LessOrEqual Max MaxPool MaxUnpool Min Neg"
    " NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or Pad ReduceMax ReduceMin Relu Reshape ReverseSequence"
    " Round SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Sign Size Slice"
    " SpaceToDepth Split SplitToSequence Squeeze Tile TopK Transpose Trilu Unique Unsqueeze Where Xor"
)
_EXACT = frozenset(_NAMES.split())


def rounds(domain: str, op_type: str) -> bool:
    """Return True if results of the operator may differ by roundings. A Cast rounds, but all implementations alike."""
    return bool(domain) or op_type not in _EXACT
