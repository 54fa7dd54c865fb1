"""The cases of onnx's backend test suite: which there are, which are left out, how one is run and its results are compared.

They come with the onnx package, and nothing is downloaded: the nine models of kind "real" are its light ones, whose weights
are made by ConstantOfShape nodes, with the inputs that onnx's own runner makes and the outputs recorded beside them.
"""

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TypeProto, ValueInfoProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase

import ort_lite
from ort_lite import GraphOptimizationLevel
from ort_lite.dtypes import Array
from ort_lite.memory.planning import checker

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
LEVELS = {"all": GraphOptimizationLevel.ORT_ENABLE_ALL, "none": GraphOptimizationLevel.ORT_DISABLE_ALL}
COUNTS = {"1.23.2": 2033}
"""Cases of a version of onnx, those that are left out included."""

_RANDOM = "draws random numbers, and expects those of NumPy's generator"
_TRAINING = "Gradient is an operator of training"
_CORNERS = "aligns corners with the length before it is rounded: PyTorch and onnxruntime do not (decision 0076)"
EXCLUDED = {
    "test_bernoulli": _RANDOM,
    "test_bernoulli_double": _RANDOM,
    "test_bernoulli_double_expanded": _RANDOM,
    "test_bernoulli_expanded": _RANDOM,
    "test_bernoulli_seed": _RANDOM,
    "test_bernoulli_seed_expanded": _RANDOM,
    "test_gradient_of_add": _TRAINING,
    "test_gradient_of_add_and_mul": _TRAINING,
    "test_resize_downsample_scales_cubic_align_corners": _CORNERS,
    "test_resize_downsample_scales_linear_align_corners": _CORNERS,
}

STEPWISE = frozenset({"test_attention_4d_causal_fp16_expanded", "test_attention_4d_gqa_with_past_and_present_fp16_expanded"})
"""Whose expected values are float16, rounded at every step of a function; one element is a unit off otherwise, at most 9e-5 more than
the tolerance. They run with the config entry that rounds so: by default, as in onnxruntime, results are nearer to the exact ones.
"""

DataSet = tuple[Sequence[Any], Sequence[Any]]


@cache
def cases() -> dict[str, TestCase]:
    """All cases by name. Takes 10 s: NumPy computes the expected outputs of the node cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the suite's own NumPy code
        from onnx.backend.test.loader import load_model_tests

        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def names(config: pytest.Config) -> list[str]:
    """Names of all cases, sorted; pytest's cache remembers them, so that collecting tests need not make the cases."""
    store = getattr(config, "cache", None)  # none under -p no:cacheprovider
    key = f"ort_lite/onnx_backend_{onnx.__version__}"
    found: list[str] | None = store.get(key, None) if store is not None else None
    if found is None:
        found = sorted(cases())
        if store is not None:
            store.set(key, found)
    return found


def parametrize(metafunc: pytest.Metafunc, first: str, last: str) -> None:
    """Gives a test with the arguments `name` and `level` the cases whose names start with letters from `first` to `last`."""
    if "level" not in metafunc.fixturenames:
        return
    chosen = [
        name for name in names(metafunc.config) if name not in EXCLUDED and first <= name.removeprefix("test_")[0] <= last
    ]
    pairs = [(name, level) for name in chosen for level in LEVELS]
    metafunc.parametrize(("name", "level"), pairs, ids=[f"{name.removeprefix('test_')}-{level}" for name, level in pairs])


def check(name: str, level: str) -> None:
    """Runs the case's data sets in one session and holds the results against the expected ones, within its tolerances."""
    case = cases()[name]
    model = model_of(case)
    made = session(model, level, "steps" if name in STEPWISE else "")
    for inputs, expected in data_sets(case, model):
        got = made.run(None, feeds(model, inputs))
        for value, result, wanted in zip(model.graph.output, got, expected, strict=True):
            assert_same(result, wanted, case.rtol, case.atol, value.name)
        for plan in made.memory_plans().values():
            checker.check(plan)


def session(model: ModelProto, level: str = "all", rounding: str = "") -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.round_16_bit", rounding)
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = 1
    return ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def model_of(case: TestCase) -> ModelProto:
    if case.model is not None:
        return case.model
    path = Path(case.model_dir) / "model.onnx" if case.model_dir else _light(case)
    return onnx.load(path)


def feeds(model: ModelProto, inputs: Sequence[Any]) -> dict[str, Any]:
    """By name; what an initialiser gives is not fed, nor optional inputs behind the last one given."""
    return {value.name: array for value, array in zip(_open_inputs(model), inputs, strict=False)}


def data_sets(case: TestCase, model: ModelProto) -> Iterator[DataSet]:
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_plain(item) for item in inputs], [_plain(item) for item in outputs]
    elif case.model_dir:
        for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
            yield _read(folder, "input", _open_inputs(model)), _read(folder, "output", model.graph.output)
    else:
        from onnx.backend.test.runner import Runner

        path = _light(case)
        recorded = [path.with_name(f"{path.stem}_output_{k}.pb") for k in range(len(model.graph.output))]
        made = [Runner.generate_dummy_data(value, name=case.model_name) for value in _open_inputs(model)]
        yield made, [_plain(onnx.load_tensor(file)) for file in recorded]


def _light(case: TestCase) -> Path:
    assert case.url is not None
    return Path(onnx.__file__).parent.parent / case.url


def _open_inputs(model: ModelProto) -> list[ValueInfoProto]:
    given = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def _read(folder: Path, what: str, values: Sequence[ValueInfoProto]) -> list[Any]:
    files = [folder / f"{what}_{k}.pb" for k in range(len(values))]
    return [_parsed(file.read_bytes(), value.type) for file, value in zip(files, values, strict=True) if file.exists()]


def _parsed(data: bytes, type_: TypeProto) -> Any:
    if type_.HasField("sequence_type"):
        return _plain(onnx.SequenceProto.FromString(data))
    if type_.HasField("optional_type"):
        return _plain(onnx.OptionalProto.FromString(data))
    return _plain(onnx.TensorProto.FromString(data))


def _plain(item: Any) -> Any:
    """A message as arrays, lists of them, or None."""
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    if isinstance(item, onnx.SequenceProto):
        return numpy_helper.to_list(item)
    if isinstance(item, onnx.OptionalProto):
        return numpy_helper.to_optional(item)
    return item


def assert_same(got: Any, wanted: Any, rtol: float, atol: float, name: str) -> None:
    """Same structure, element types and shapes; floats within the tolerances, anything else equal."""
    if wanted is None or isinstance(wanted, list):
        assert type(got) is type(wanted), f"{name}: {type(got).__name__}, expected {type(wanted).__name__}"
        for a, b in zip(got or (), wanted or (), strict=True):
            assert_same(a, b, rtol, atol, name)
        return
    a, b = np.asarray(got), np.asarray(wanted)
    assert a.shape == b.shape, f"{name}: shape {a.shape}, expected {b.shape}"
    if b.dtype.kind in "OSU":
        assert a.astype(str).tolist() == b.astype(str).tolist(), name
        return
    assert a.dtype == b.dtype, f"{name}: {a.dtype}, expected {b.dtype}"
    if b.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, err_msg=name)
    else:
        np.testing.assert_allclose(_wide(a), _wide(b), rtol=rtol, atol=atol, err_msg=name)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
