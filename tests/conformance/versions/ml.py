"""ai.onnx.ml, against onnxruntime, which has no kernel for some of the types, and formulas."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, Oracle, case
from tests.cpu.check import ints, ramp
from tests.cpu.ort import ort_op
from tests.cpu.random_trees import random_forest, rows

ML = "ai.onnx.ml"
X = ramp((6, 4))
WORDS = np.array([["red", "blue"], ["green", "red"]], object)
POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def some(count: int, seed: int = 0, scale: float = 1.0) -> list[float]:
    drawn: list[float] = (np.random.default_rng(seed).normal(size=count) * scale).astype(np.float32).tolist()
    return drawn


def onnxruntime(op_type: str, *outputs: str, opset: int = 1) -> Oracle:
    """What it makes of the input in float32."""

    def oracle(x: Array, **attributes: Any) -> Any:
        found = ort_op(op_type, [x.astype(np.float32)], attributes, opset=opset, domain=ML, outputs=outputs or ("float32",))
        return tuple(found)

    return oracle


def extracted(x: Array, index: Array) -> Array:
    return np.take(np.atleast_2d(x), index.reshape(-1), axis=-1)


def binarized(x: Array, threshold: float = 0.0) -> Array:
    return np.asarray(x > threshold).astype(x.dtype)


def scaled(x: Array, offset: list[float], scale: list[float]) -> Array:
    return np.asarray((x - np.array(offset)) * np.array(scale), np.float32)


def normalized(x: Array, norm: str = "MAX") -> Array:
    sizes = x.astype(np.float64)
    order = {"MAX": np.inf, "L1": 1, "L2": 2}[norm]  # of numbers above 0 the largest one is that of greatest size
    lengths = np.linalg.norm(sizes, order, -1, keepdims=True)
    return np.asarray(sizes / lengths, np.float32)


def imputed(x: Array, **attributes: Any) -> Array:
    kind = "float" if x.dtype.kind == "f" else "int64"
    replaced = attributes[f"replaced_value_{kind}"]
    gaps = np.isnan(x) if np.isnan(replaced) else x == replaced
    return np.where(gaps, np.array(attributes[f"imputed_value_{kind}s"]), x).astype(x.dtype)


def one_hot(x: Array, zeros: int = 1, **categories: list[Any]) -> Array:
    [known] = categories.values()
    cut = x if x.dtype == object else x.astype(np.int64)
    return np.asarray(cut[..., None] == np.array(known, cut.dtype)).astype(np.float32)


def vectorized(*tables: Array, inputdimensions: list[int]) -> Array:
    wide = [np.pad(table, ((0, 0), (0, 9)))[:, :width] for table, width in zip(tables, inputdimensions, strict=True)]
    return np.concatenate(wide, axis=1).astype(np.float32)


FEATURES = (
    case("ArrayFeatureExtractor", X, ints(3, 0, 3), domain=ML, oracle=extracted, constants=[1]),
    case("ArrayFeatureExtractor", X[0], ints(1), domain=ML, oracle=extracted, types=()),
    case("Binarizer", X, domain=ML, oracle=binarized, threshold=0.5),
    case("Binarizer", X[:0], domain=ML, oracle=binarized, types=()),
    case("FeatureVectorizer", X, X[:, :2] + 1, domain=ML, oracle=vectorized, inputdimensions=[3, 5]),
    case(
        "Imputer",
        X,
        domain=ML,
        oracle=imputed,
        types=["float64"],
        replaced_value_float=float(X[1, 2]),
        imputed_value_floats=some(4),
    ),
    case(
        "Imputer",
        np.array([[1, np.nan]], np.float32),
        domain=ML,
        oracle=imputed,
        types=(),
        replaced_value_float=float("nan"),
        imputed_value_floats=[7.0],
    ),
    case(
        "Imputer",
        ints(1, 5, 5, 2),
        domain=ML,
        oracle=imputed,
        types=["int32"],
        replaced_value_int64=5,
        imputed_value_int64s=[9],
    ),
    *[case("Normalizer", abs(X) + 1, domain=ML, oracle=normalized, norm=norm) for norm in ("MAX", "L1", "L2")],
    case("OneHotEncoder", abs(X), domain=ML, oracle=one_hot, types=["int32", "int64", "float64"], cats_int64s=[2, 0, 7]),
    case("OneHotEncoder", WORDS, domain=ML, oracle=one_hot, types=(), cats_strings=["green", "red"]),
    case("Scaler", X, domain=ML, oracle=scaled, rtol=1e-4, offset=some(4), scale=some(4, 1)),
    case("Scaler", X, domain=ML, oracle=scaled, rtol=1e-4, types=(), offset=[0.5], scale=[3.0]),
)


def looked_up(x: Array, **attributes: Any) -> Array:
    """Version 1 numbers its strings; later ones have keys and values."""
    of = {name.partition("_")[0]: value for name, value in attributes.items()}
    if "classes" in of:
        words = list(of["classes"])
        if x.dtype == object:
            table, default = {word: k for k, word in enumerate(words)}, attributes["default_int64"]
        else:
            table, default = dict(enumerate(words)), attributes["default_string"]
    else:
        table, default = dict(zip(of["keys"], of["values"], strict=True)), of["default"]
        default = default[0] if isinstance(default, np.ndarray) else default
    found = [table.get(item, default) for item in x.ravel().tolist()]
    kinds: dict[type, Any] = {str: object, float: np.float32, int: np.int64}
    return np.array(found, kinds.get(type(default)) or default.dtype).reshape(x.shape)


def mapped(x: Array, cats_strings: list[str], cats_int64s: list[int]) -> Array:
    if x.dtype == object:
        return np.array([dict(zip(cats_strings, cats_int64s, strict=True)).get(item, -1) for item in x.ravel()]).reshape(
            x.shape
        )
    table = dict(zip(cats_int64s, cats_strings, strict=True))
    return np.array([table.get(item, "_Unused") for item in x.ravel().tolist()], object).reshape(x.shape)


CLASSES: dict[str, Any] = {"classes_strings": ["red", "green"], "default_int64": -7, "default_string": "?"}
MAPPER: dict[str, Any] = {"cats_strings": ["red", "blue"], "cats_int64s": [3, 5]}
TENSORS: dict[str, tuple[list[Any], list[Any]]] = {  # keys, values, of LabelEncoder-4
    "int64": ([4, 2], [1, 9]),
    "int32": ([4, 2], [1, 9]),
    "int16": ([4, 2], [1, 9]),
    "float64": ([0.5, 4.0], [1.25, -1.0]),
    "float32": ([0.5, 4.0], [1.25, -1.0]),
}
LABELS = (
    case("LabelEncoder", WORDS, until=1, domain=ML, oracle=looked_up, types=(), **CLASSES),
    case("LabelEncoder", ints(1, 0, 2), until=1, domain=ML, oracle=looked_up, types=(), **CLASSES),
    case("LabelEncoder", WORDS, since=2, domain=ML, oracle=looked_up, types=(), keys_strings=["red", "blue"], values_floats=[0.5, 2.0],
         default_float=-0.5),
    case("LabelEncoder", ints(3, 1, 4), since=2, domain=ML, oracle=looked_up, types=(), keys_int64s=[4, 3],
         values_strings=["four", "three"], default_string="none"),
    case("LabelEncoder", np.array([0.5, 2, 8], np.float32), since=2, domain=ML, oracle=looked_up, types=(), keys_floats=[8.0, 0.5],
         values_int64s=[80, 5], default_int64=-3),
    *[case("LabelEncoder", np.array([*keys, 7], kind), since=4, domain=ML, oracle=looked_up, types=(), keys_tensor=np.array(keys, kind),
           values_tensor=np.array(values, kind), default_tensor=np.array([5], kind)) for kind, (keys, values) in TENSORS.items()],
    case("CategoryMapper", WORDS, domain=ML, oracle=mapped, types=(), **MAPPER),
    case("CategoryMapper", ints(5, 4, 3), domain=ML, oracle=mapped, types=(), **MAPPER),
)  # fmt: skip


def linear_cases() -> list[Case]:
    """Two classes of one row of coefficients, several of one each; regressors with and without intercepts."""
    regressor: dict[str, Any] = {"domain": ML, "oracle": onnxruntime("LinearRegressor"), "rtol": 1e-4, "atol": 1e-4}
    numbers: dict[str, Any] = {"oracle": onnxruntime("LinearClassifier", "int64", "float32"), "classlabels_ints": [5, 3, 8]}
    words: dict[str, Any] = {
        "oracle": onnxruntime("LinearClassifier", "string", "float32"),
        "classlabels_strings": ["no", "yes"],
    }
    classifier: dict[str, Any] = {"domain": ML, "outputs": 2, "rtol": 1e-4, "atol": 1e-4}
    three: dict[str, Any] = {"coefficients": some(12, 1, 0.1), "intercepts": some(3, 2)}
    made = [
        case("LinearRegressor", X, **regressor, coefficients=some(12), intercepts=some(3), targets=3),
        case("LinearRegressor", X[:0], **regressor, types=(), coefficients=some(4)),
        case("LinearClassifier", X, **classifier, **words, coefficients=some(4), intercepts=[0.1], post_transform="LOGISTIC"),
    ]
    for post in POSTS:
        made.append(case("LinearRegressor", X, **regressor, types=(), coefficients=some(8), targets=2, post_transform=post))
        made.append(case("LinearClassifier", X, **classifier, **numbers, **three, types=(), post_transform=post))
    return made


def machine(classes: int, counts: list[int], kernel: str, *, probabilities: bool = False) -> dict[str, Any]:
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 3.0],
        "support_vectors": some(vectors * 4, 1),
        "rho": some(pairs, 2),
        "coefficients": some((classes - 1) * vectors, 3),
        "vectors_per_class": counts,
    }
    if probabilities:
        attributes |= {"prob_a": [-abs(n) for n in some(pairs, 4)], "prob_b": some(pairs, 5)}
    return attributes


def support_cases() -> list[Case]:
    classifier: dict[str, Any] = {"domain": ML, "outputs": 2, "rtol": 1e-4, "atol": 1e-4}
    numbers: dict[str, Any] = {"oracle": onnxruntime("SVMClassifier", "int64", "float32"), "classlabels_ints": [9, 4, 7]}
    words: dict[str, Any] = {"oracle": onnxruntime("SVMClassifier", "string", "float32"), "classlabels_strings": ["a", "b"]}
    made = []
    for kernel in ("RBF", "LINEAR", "POLY", "SIGMOID"):
        types = None if kernel == "RBF" else ()
        made.append(case("SVMClassifier", X, **classifier, **numbers, types=types, **machine(3, [2, 3, 1], kernel)))
        regressor: dict[str, Any] = {
            "kernel_type": kernel,
            "kernel_params": [0.3, 0.5, 2.0],
            "support_vectors": some(20, 1),
            "coefficients": some(5, 2),
            "rho": [0.3],
            "n_supports": 5,
            "one_class": int(kernel == "LINEAR"),
            "domain": ML,
            "types": types,
        }
        made.append(case("SVMRegressor", X, oracle=onnxruntime("SVMRegressor"), rtol=1e-4, atol=1e-5, **regressor))
    made.append(case("SVMClassifier", X, **classifier, **words, types=(), **machine(2, [3, 4], "RBF", probabilities=True)))
    return made


def tree_cases() -> list[Case]:
    """One version of the old operators takes lists, the next one tensors as well."""
    made = []
    table, three = rows(3, 30), random_forest(3, 9, range(3))
    finite = np.nan_to_num(table, posinf=9, neginf=-9)  # what integers can hold
    regressor: dict[str, Any] = {**three.by_id("target"), "n_targets": 3, "domain": ML}
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        more: dict[str, Any] = {"aggregate_function": aggregate, "oracle": onnxruntime("TreeEnsembleRegressor")}
        types = None if aggregate == "SUM" else ()
        made.append(case("TreeEnsembleRegressor", finite, until=4, types=types, base_values=some(3), **regressor, **more))
        made.append(case("TreeEnsembleRegressor", table, until=4, types=(), **regressor, **more))
    tensors = {key: value for key, value in regressor.items() if key not in ("nodes_values", "target_weights")}
    tensors["nodes_values_as_tensor"] = np.array(regressor["nodes_values"])
    tensors["target_weights_as_tensor"] = np.array(regressor["target_weights"])
    made.append(
        case("TreeEnsembleRegressor", table.astype(np.float64), since=3, until=4, types=(), oracle="onnxruntime", **tensors)
    )
    classes: dict[str, Any] = {**three.by_id("class"), "domain": ML, "outputs": 2, "rtol": 1e-4, "atol": 1e-5, "until": 4}
    for post in POSTS:
        numbers: dict[str, Any] = {"oracle": onnxruntime("TreeEnsembleClassifier", "int64", "float32"), "post_transform": post}
        made.append(case("TreeEnsembleClassifier", finite, classlabels_int64s=[7, 5, 9], **numbers, **classes))
    words = onnxruntime("TreeEnsembleClassifier", "string", "float32")
    made.append(case("TreeEnsembleClassifier", table, types=(), oracle=words, classlabels_strings=["r", "g", "b"], **classes))
    for kind in ("float32", "float64"):
        newest = random_forest(8, 9, range(2), single=True, leaf=0.3).by_position(kind)
        made.append(
            case(
                "TreeEnsemble",
                table.astype(kind),
                domain=ML,
                oracle="onnxruntime",
                types=["float16"] if kind == "float32" else (),
                n_targets=2,
                aggregate_function=1,
                **newest,
            )
        )
    return made


def one_map_a_row(x: Array, **labels: list[Any]) -> list[dict[Any, float]]:
    [names] = labels.values()
    return [{name: float(row[k]) for name, k in sorted(zip(names, range(9), strict=False))} for row in np.atleast_2d(x)]


def in_order(x: dict[Any, Any], kind: Any = None, **vocabulary: list[Any]) -> Array:
    [names] = vocabulary.values()
    first = next(iter(x.values()))
    return np.array(
        [[x.get(name, "" if isinstance(first, str) else 0) for name in names]],
        object if isinstance(first, str) else first.dtype,
    )


def cast_map(x: dict[int, Any], cast_to: str, map_form: str = "DENSE", max_map: int = 0) -> Array:
    """Values by key, or by position where keys need not be those from 0."""
    values = (
        [x.get(k, "0" if cast_to == "TO_STRING" else 0) for k in range(max_map)]
        if map_form == "SPARSE"
        else [x[k] for k in sorted(x)]
    )
    kind = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[cast_to]
    return np.array([[float(v) if kind is np.float32 else int(v) if kind is np.int64 else str(v) for v in values]], kind)


FLOAT, INT, DOUBLE = np.float32, np.int64, np.float64
MAPS = (
    case("ZipMap", X[:, :3], domain=ML, oracle=one_map_a_row, classlabels_int64s=[7, 3, 5]),
    case("ZipMap", X[:, :2], domain=ML, oracle=one_map_a_row, classlabels_strings=["b", "a"]),
    case("DictVectorizer", {"a": INT(4), "c": INT(6)}, domain=ML, oracle=in_order, string_vocabulary=["c", "b", "a"]),
    case("DictVectorizer", {"a": FLOAT(0.5)}, domain=ML, oracle=in_order, string_vocabulary=["c", "a"]),
    case("DictVectorizer", {"a": DOUBLE(0.1)}, domain=ML, oracle=in_order, string_vocabulary=["a"]),
    case("DictVectorizer", {3: FLOAT(0.5), 1: FLOAT(2)}, domain=ML, oracle=in_order, int64_vocabulary=[1, 2, 3]),
    case("DictVectorizer", {3: DOUBLE(0.5)}, domain=ML, oracle=in_order, int64_vocabulary=[1, 3]),
    case("DictVectorizer", {3: "x", 1: "y"}, domain=ML, oracle=in_order, int64_vocabulary=[1, 2, 3]),
    *[case("CastMap", {0: FLOAT(1.5), 2: FLOAT(3)}, domain=ML, oracle=cast_map, cast_to=to) for to in ("TO_FLOAT", "TO_INT64")],
    case("CastMap", {0: "1.5", 2: "7"}, domain=ML, oracle=cast_map, cast_to="TO_FLOAT", map_form="SPARSE", max_map=4),
    case("CastMap", {0: "one", 2: "two"}, domain=ML, oracle=cast_map, cast_to="TO_STRING"),
)

CASES: tuple[Case, ...] = (*FEATURES, *LABELS, *linear_cases(), *support_cases(), *tree_cases(), *MAPS)
