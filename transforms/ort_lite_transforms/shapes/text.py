"""Strings, and what is made of them."""

from ort_lite.inference import Info, Op, broadcast, shape_rule
from ort_lite_transforms.shapes.elementwise import like


@shape_rule("StringConcat")
def string_concat(op: Op) -> list[Info]:
    """Both broadcast. Spec: ONNX StringConcat-20."""
    return [op.tensor("string", broadcast(op.shape(0), op.shape(1)))]


@shape_rule("StringSplit", types=("string", "int64"))
def string_split(op: Op) -> list[Info]:
    """(...) -> (..., most parts), and how many there are of each. Spec: ONNX StringSplit-20."""
    return [op.tensor("string", [*op.shape(0), op.fresh()]), op.tensor("int64", op.shape(0))]


@shape_rule("StringNormalizer")
def string_normalizer(op: Op) -> list[Info]:
    """(C) or (1, C); stop words shorten it. Spec: ONNX StringNormalizer-10."""
    if not op.attr("stopwords"):
        return [like(op)]
    return [op.tensor("string", [*op.shape(0)[:-1], op.fresh()])]


@shape_rule("RegexFullMatch", types=("bool",))
def regex_full_match(op: Op) -> list[Info]:
    """bool, shaped like x. Spec: ONNX RegexFullMatch-20."""
    return [op.tensor("bool", op.shape(0))]


@shape_rule("TfIdfVectorizer", types=("float32",))
def tf_idf(op: Op) -> list[Info]:
    """(C) -> (columns), (N, C) -> (N, columns). Spec: ONNX TfIdfVectorizer-9."""
    return [op.tensor("float32", [*op.shape(0)[:-1], max(op.attr("ngram_indexes")) + 1])]


@shape_rule("ImageDecoder", types=("uint8",))
def image_decoder(op: Op) -> list[Info]:
    """Bytes -> (H, W, 3), 1 channel for greyscale. Spec: ONNX ImageDecoder-20."""
    channels = 1 if op.attr("pixel_format", "RGB") == "Grayscale" else 3
    return [op.tensor("uint8", (op.fresh(), op.fresh(), channels))]


RULES = [*string_concat, *string_split, *string_normalizer, *regex_full_match, *tf_idf, *image_decoder]
