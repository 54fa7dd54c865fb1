"""Operators of the domain ai.onnx.ml."""

from functools import partial

from ort_lite.dtypes import DType, from_numpy
from ort_lite.graph import MapType, SequenceType, TensorType
from ort_lite.inference import Info, Op, RankUnknown, shape_rule
from ort_lite.shapes import Dim, product
from ort_lite_transforms.shapes.elementwise import like

_ml_rule = partial(shape_rule, domain="ai.onnx.ml")


def _rows(op: Op) -> Dim:
    """Examples in x (N, C); a vector is one example."""
    shape = op.shape(0)
    return shape[0] if len(shape) > 1 else 1


def _labels(op: Op) -> DType:
    """Return the class labels: whichever of the two attributes is present."""
    return "string" if op.attr("classlabels_strings") else "int64"


def _classes(op: Op) -> int:
    """Return the number of class labels."""
    for name in ("classlabels_strings", "classlabels_ints", "classlabels_int64s"):
        if op.attr(name):
            return len(op.attr(name))
    return 0


@_ml_rule("Binarizer", "Imputer")
def same_type(op: Op) -> list[Info]:
    """y like x. Spec: ONNX-ML Binarizer-1, Imputer-1."""
    return [like(op)]


@_ml_rule("Normalizer", "Scaler", types=("float32",))
def as_float(op: Op) -> list[Info]:
    """float32, shaped like x. Spec: ONNX-ML Normalizer-1, Scaler-1."""
    return [op.tensor("float32", op.shape(0))]


@_ml_rule("ArrayFeatureExtractor")
def array_feature_extractor(op: Op) -> list[Info]:
    """(..., F) and k indices -> (..., k); a vector becomes a row. Spec: ONNX-ML ArrayFeatureExtractor-1."""
    shape, count = op.shape(0), product(op.shape(1))
    return [op.tensor(op.dtype(0), [*(shape[:-1] if len(shape) > 1 else (1,)), count])]


_CAST_TO = {"TO_FLOAT": "float32", "TO_STRING": "string", "TO_INT64": "int64"}


@_ml_rule("CastMap", types=(lambda op: _CAST_TO[op.attr("cast_to", "TO_FLOAT")],))
def cast_map(op: Op) -> list[Info]:
    """A map -> (1, entries), or (1, max_map) when sparse. Spec: ONNX-ML CastMap-1."""
    sparse = op.attr("map_form", "DENSE") == "SPARSE"
    count = op.attr("max_map", 1) if sparse else op.fresh()
    return [op.tensor(_CAST_TO[op.attr("cast_to", "TO_FLOAT")], (1, count))]


def _counterpart_dtype(op: Op) -> DType:
    return "int64" if op.dtype(0) == "string" else "string"


@_ml_rule("CategoryMapper", types=(_counterpart_dtype,))
def category_mapper(op: Op) -> list[Info]:
    """Strings to int64 and back, shaped like x. Spec: ONNX-ML CategoryMapper-1."""
    return [op.tensor(_counterpart_dtype(op), op.shape(0))]


@_ml_rule("DictVectorizer", types=())
def dict_vectorizer(op: Op) -> list[Info]:
    """A map -> (1, size of the vocabulary) of its values. Spec: ONNX-ML DictVectorizer-1."""
    type_ = op.info(0).type
    if not isinstance(type_, MapType) or not isinstance(type_.value, TensorType):
        raise RankUnknown(0)
    words = op.attr("string_vocabulary") or op.attr("int64_vocabulary") or []
    return [op.tensor(type_.value.dtype, (1, len(words)))]


@_ml_rule("FeatureVectorizer", types=("float32",))
def feature_vectorizer(op: Op) -> list[Info]:
    """Several (N, C) side by side. Spec: ONNX-ML FeatureVectorizer-1."""
    return [op.tensor("float32", (_rows(op), sum(op.attr("inputdimensions", []))))]


def _encode(op: Op) -> DType:
    table = op.attr("values_tensor")
    if table is not None:
        return from_numpy(table.dtype)
    for name, dtype in (("values_floats", "float32"), ("values_int64s", "int64"), ("values_strings", "string")):
        if op.attr(name):
            return dtype
    return _counterpart_dtype(op)  # version 1 has only classes_strings


@_ml_rule("LabelEncoder", types=(_encode,))
def label_encoder(op: Op) -> list[Info]:
    """Shaped like x, of the type of the values. Spec: ONNX-ML LabelEncoder-4."""
    return [op.tensor(_encode(op), op.shape(0))]


@_ml_rule("LinearClassifier", "TreeEnsembleClassifier", types=(_labels, "float32"))
def classifier(op: Op) -> list[Info]:
    """(N, C) -> labels (N,), scores (N, classes). Spec: ONNX-ML LinearClassifier-1, TreeEnsembleClassifier-3."""
    rows, scores = _rows(op), _classes(op)
    if op.node.op_type == "LinearClassifier":
        biases = len(op.attr("intercepts") or ())
        scores = biases if biases > 1 else max(scores, 1)
    return [op.tensor(_labels(op), (rows,)), op.tensor("float32", (rows, scores))]


@_ml_rule("SVMClassifier", types=(_labels, "float32"))
def svm_classifier(op: Op) -> list[Info]:
    """Scores are those of the classes, or of each pair of them. Spec: ONNX-ML SVMClassifier-1."""
    rows, count = _rows(op), _classes(op)
    pairs = sum(op.attr("vectors_per_class") or ()) and not op.attr("prob_a")
    scores = count * (count - 1) // 2 if pairs and count > 2 else count
    return [op.tensor(_labels(op), (rows,)), op.tensor("float32", (rows, scores))]


@_ml_rule("LinearRegressor", "TreeEnsembleRegressor", types=("float32",))
def regressor(op: Op) -> list[Info]:
    """(N, C) -> (N, targets). Spec: ONNX-ML LinearRegressor-1, TreeEnsembleRegressor-3."""
    return [op.tensor("float32", (_rows(op), op.attr("targets", op.attr("n_targets", 1))))]


@_ml_rule("SVMRegressor", types=("float32",))
def svm_regressor(op: Op) -> list[Info]:
    """(N, C) -> (N, 1). Spec: ONNX-ML SVMRegressor-1."""
    return [op.tensor("float32", (_rows(op), 1))]


@_ml_rule("TreeEnsemble")
def tree_ensemble(op: Op) -> list[Info]:
    """(N, C) -> (N, n_targets). Spec: ONNX-ML TreeEnsemble-5."""
    return [op.tensor(op.dtype(0), (_rows(op), op.attr("n_targets", 1)))]


@_ml_rule("OneHotEncoder", types=("float32",))
def one_hot_encoder(op: Op) -> list[Info]:
    """(...) -> (..., categories). Spec: ONNX-ML OneHotEncoder-1."""
    categories = op.attr("cats_strings") or op.attr("cats_int64s") or []
    return [op.tensor("float32", [*op.shape(0), len(categories)])]


@_ml_rule("ZipMap", types=())
def zip_map(op: Op) -> list[Info]:
    """(N, C) -> N maps from label to number. Spec: ONNX-ML ZipMap-1."""
    return [Info(SequenceType(MapType(_labels(op), TensorType("float32", ()))))]


RULES = [
    *same_type,
    *as_float,
    *array_feature_extractor,
    *cast_map,
    *category_mapper,
    *dict_vectorizer,
    *feature_vectorizer,
    *label_encoder,
    *classifier,
    *svm_classifier,
    *regressor,
    *svm_regressor,
    *tree_ensemble,
    *one_hot_encoder,
    *zip_map,
]
