"""Programs that import onnxruntime get ort_lite: in this process, with a module table of the test's own."""

import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as installed
import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import ort_lite
from ort_lite import errors
from ort_lite.compat import switch

MODEL = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Add(x, x) }'


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """onnxruntime as a program gets it; afterwards the module table is as before."""
    for name in [name for name in sys.modules if switch._of_onnxruntime(name)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(errors.OrtLiteError, "tells_status", False)
    ort_lite.install_as_onnxruntime()
    yield importlib.import_module("onnxruntime")
    for name in [name for name in sys.modules if switch._of_onnxruntime(name)]:
        del sys.modules[name]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, switched: ModuleType) -> ModuleType:
    """The same, where no onnxruntime is installed."""
    monkeypatch.setattr(switch, "_onnxruntime_folders", list)
    return switched


def test_names_are_those_of_ort_lite(switched: ModuleType) -> None:
    assert Path(str(switched.__file__)).is_relative_to(Path(ort_lite.__file__).parent)
    assert switched.InferenceSession is ort_lite.InferenceSession
    assert {name for name in ort_lite.__all__ if not hasattr(switched, name)} == set()
    assert set(ort_lite.__all__) <= set(dir(switched))
    with pytest.raises(AttributeError, match=r"no attribute 'nosuch'.*migrating"):
        switched.nosuch  # noqa: B018  what it raises


STATUSES = """
    1 FAIL Fail, 2 INVALID_ARGUMENT InvalidArgument, 3 NO_SUCHFILE NoSuchFile, 4 NO_MODEL NoModel, 5 ENGINE_ERROR EngineError,
    6 RUNTIME_EXCEPTION RuntimeException, 7 INVALID_PROTOBUF InvalidProtobuf, 8 MODEL_LOADED ModelLoaded,
    9 NOT_IMPLEMENTED NotImplemented, 10 INVALID_GRAPH InvalidGraph, 11 EP_FAIL EPFail, 12 MODEL_LOAD_CANCELED ModelLoadCanceled,
    13 MODEL_REQUIRES_COMPILATION ModelRequiresCompilation, 14 NOT_FOUND NotFound, 15 DEVICE_RESET DeviceReset
"""


@pytest.mark.parametrize(("code", "spelled", "name"), [status.split() for status in STATUSES.split(",")])
def test_errors_are_where_programs_import_them_from(switched: ModuleType, code: str, spelled: str, name: str) -> None:
    found = {getattr(switched.capi.onnxruntime_pybind11_state, name), getattr(switched.capi._pybind_state, name)}
    assert found == {getattr(errors, name)}
    assert str(found.pop()("what")) == f"[ONNXRuntimeError] : {code} : {spelled} : what"


def test_an_error_that_tells_of_another_has_one_status(switched: ModuleType) -> None:
    told = errors.CompileError(errors.format_error(errors.InvalidArgument("what")))
    assert str(told) == "[ONNXRuntimeError] : 11 : EP_FAIL : InvalidArgument: what"


def test_texts_begin_as_before_where_nobody_switched() -> None:
    assert str(errors.InvalidArgument("what")) == "what"


MODULES = """
    _ld_preload _pybind_state build_and_package_info onnxruntime_collect_build_info onnxruntime_inference_collection
    onnxruntime_pybind11_state onnxruntime_validation
"""


@pytest.mark.parametrize("module", MODULES.split())
def test_modules_of_the_native_library_are_served(alone: ModuleType, module: str) -> None:
    served = importlib.import_module(f"onnxruntime.capi.{module}")
    assert Path(str(served.__file__)).is_relative_to(switch.FOLDER)


def test_names_can_be_taken_all_at_once(alone: ModuleType) -> None:
    names: dict[str, Any] = {}
    exec("from onnxruntime import *\nfrom onnxruntime.capi._pybind_state import *", names)
    assert names["InferenceSession"] is ort_lite.InferenceSession
    assert names["Fail"] is errors.Fail


def test_functions_and_numbers_of_the_native_library_are_there(switched: ModuleType) -> None:
    state = switched.capi._pybind_state
    assert [state.is_dlpack_uint8_tensor(np.zeros(2, dtype).__dlpack__()) for dtype in (np.uint8, np.int8)] == [True, False]
    assert (int(state.kNextPowerOfTwo), state.ArenaExtendStrategy.kSameAsRequested.name) == (0, "kSameAsRequested")
    assert state.get_default_session_options().intra_op_num_threads == 0
    with pytest.raises(errors.InvalidArgument, match="a int is no DLPack capsule"):
        state.is_dlpack_uint8_tensor(3)


def test_the_version_is_one_that_programs_accept(switched: ModuleType) -> None:
    version = switched.__version__
    assert version == "1.32.0" == switched.get_version_string() == importlib.metadata.version("onnxruntime")
    kinds = {type(found) for found in (version, switched.version, importlib.metadata.version("onnxruntime"))}
    assert kinds == {str}, "msgpack, YAML, OmegaConf and bentoml refuse a subclass"
    assert tuple(map(int, version.split("."))) == (1, 32, 0)
    assert [int(part) for part in version.split(".")[:2]] == [1, 32]
    major, minor, _ = version.split(".", 3)
    assert (int(major), int(minor)) >= (1, 17)
    assert Version("1.32.0") <= Version(version) < Version("1.32.1")
    assert Version(version) in SpecifierSet(">=1.16,<2") & SpecifierSet("==1.32.0")
    assert version.startswith("1.32")
    assert switched.get_build_info().startswith(f"ORT Build Info: ort-lite {ort_lite.__version__}, ")


X = np.ones((2, 2), np.float32)
WORDS = [
    ({"x": X}, None, "Required inputs (['w']) are missing from input feed (['x'])"),
    ({"x": X, "w": X, "z": X}, None, "Invalid input name: z"),
    ({"x": X.astype(float), "w": X}, None, "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))"),
    ({"x": X[0], "w": X}, None, "Invalid rank for input: x Got: 1 Expected: 2"),
    ({"x": np.ones((2, 3), np.float32), "w": X}, None, "Got invalid dimensions for input: x"),
    ({"x": X, "w": X}, ["q"], "Invalid output name:q"),
]


@pytest.mark.parametrize(("feed", "outputs", "words"), WORDS)
def test_words_that_programs_look_for_are_in_both_texts(
    switched: ModuleType, feed: dict[str, Any], outputs: list[str] | None, words: str
) -> None:
    import onnx.parser

    graph = "g (float[N,2] x, float[N,2] w) => (float[N,2] y) { y = Add(x, w) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}').SerializeToString()
    with pytest.raises(Exception, match=re.escape(words)):
        installed.InferenceSession(model).run(outputs, feed)
    with pytest.raises(errors.InvalidArgument, match=r"^\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT : ") as caught:
        switched.InferenceSession(model).run(outputs, feed)
    assert words in str(caught.value)
    assert words not in errors.describe(caught.value)


def test_it_is_found_without_being_imported(alone: ModuleType) -> None:
    """As transformers, optimum and sentence-transformers ask."""
    assert importlib.util.find_spec("onnxruntime") is not None
    assert importlib.metadata.version("onnxruntime") == alone.__version__
    assert importlib.metadata.version("OnnxRuntime") == alone.__version__
    assert importlib.metadata.metadata("onnxruntime")["Name"] == "onnxruntime"
    assert "onnxruntime" in importlib.metadata.packages_distributions()["onnxruntime"]


def test_only_who_asks_all_of_the_path_finds_the_distribution(switched: ModuleType, tmp_path: Path) -> None:
    found = importlib.metadata.distributions(name="onnxruntime", path=[str(tmp_path)])
    assert list(found) == []


def test_python_code_of_an_installed_onnxruntime_runs_on_ort_lite(switched: ModuleType) -> None:
    helpers = importlib.import_module("onnxruntime.tools.onnx_model_utils")
    assert "ort_lite" not in str(helpers.__file__)
    assert helpers.ort is switched
    assert helpers.ort.InferenceSession is ort_lite.InferenceSession


@pytest.mark.parametrize("name", ["quantization", "transformers", "tools"])
def test_without_an_installed_onnxruntime_its_own_code_is_asked_for(alone: ModuleType, name: str) -> None:
    with pytest.raises(ImportError, match=rf"onnxruntime\.{name} is onnxruntime's own .*pip install onnxruntime"):
        importlib.import_module(f"onnxruntime.{name}")
    with pytest.raises(ImportError, match=r"pip install onnxruntime"):
        exec(f"from onnxruntime import {name}")


def test_what_no_onnxruntime_has_is_not_found(switched: ModuleType) -> None:
    assert importlib.util.find_spec("onnxruntime.training") is None
    with pytest.raises(ModuleNotFoundError, match=r"onnxruntime\.nosuch"):
        importlib.import_module("onnxruntime.nosuch")


def test_one_that_is_imported_already_is_not_replaced_in_silence(switched: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("onnxruntime")
    other.__file__ = "/elsewhere/onnxruntime/__init__.py"
    monkeypatch.setitem(sys.modules, "onnxruntime", other)
    with pytest.raises(errors.Fail, match=r"imported already, from /elsewhere.*replace=True"):
        ort_lite.install_as_onnxruntime()
    assert sys.modules["onnxruntime"] is other
    ort_lite.install_as_onnxruntime(replace=True)
    assert importlib.import_module("onnxruntime").InferenceSession is ort_lite.InferenceSession


def test_once_more_changes_nothing(switched: ModuleType) -> None:
    ort_lite.install_as_onnxruntime()
    assert sys.meta_path.count(switch.FINDER) == 1
    assert importlib.import_module("onnxruntime") is switched
