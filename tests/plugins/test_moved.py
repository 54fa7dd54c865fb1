"""Old dotted paths: each leads to the module or name of today, and warns; sessions that were pickled by them come back."""

import pickle
import re
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.plugins.moved import MODULES, NAMES, spec_of

ROOT = Path(__file__).parents[2]
OLD_CONTRACT = {
    "checkpoint": ("native.checkpoint", "checkpoint"),
    "machine.image": ("provider.machine_image", "Image"),
    "plugins.ep_devices": ("compat.ep_devices", "get_ep_devices"),
    "serialization.load": ("load.load", "load"),
    "serialization.parse_options": ("load.parse_options", "ParseOptions"),
    "session.ort_value": ("compat.ort_value", "OrtValue"),
    "tensors.params": ("params.params", "load_params"),
    "verification.settings": ("tools.verify.settings", "Verification"),
}
"""What pages and the contract of providers named, with where it is now."""


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old names are imported anew by each test."""
    for name in [name for name in sys.modules if spec_is_old(name)]:
        monkeypatch.delitem(sys.modules, name)


def spec_is_old(name: str) -> bool:
    return any(name == f"ort_lite.{old}" or name.startswith(f"ort_lite.{old}.") for old in MODULES)


@pytest.mark.parametrize("old", MODULES)
def test_an_old_module_is_gone_and_its_new_one_is_there(old: str) -> None:
    assert not (ROOT / "ort_lite" / old.replace(".", "/")).exists()
    assert not (ROOT / "ort_lite" / f"{old.replace('.', '/')}.py").exists()
    assert util.find_spec(f"ort_lite.{MODULES[old]}") is not None


@pytest.mark.parametrize("old", OLD_CONTRACT)
def test_an_old_path_is_the_module_and_warns_once(old: str) -> None:
    module, name = OLD_CONTRACT[old]
    with pytest.warns(DeprecationWarning, match=r"is now ort_lite\.") as warned:
        found = import_module(f"ort_lite.{old}")
    assert len(warned) == 1
    assert import_module(f"ort_lite.{old}") is found, "without a warning, which would be an error here"
    assert getattr(found, name) is getattr(import_module(f"ort_lite.{module}"), name)


def test_a_file_below_an_old_folder_is_loaded_once() -> None:
    with pytest.warns(DeprecationWarning, match=re.escape("ort_lite.serialization is now ort_lite.load")):
        assert import_module("ort_lite.serialization.load") is import_module("ort_lite.load.load")


@pytest.mark.parametrize("old", NAMES)
def test_an_old_name_is_the_name_and_warns(old: str) -> None:
    module, _, name = old.rpartition(".")
    code = f"from ort_lite.{module} import {name}; import ort_lite; assert {name} is ort_lite.{name}"
    command = [sys.executable, "-W", "always::DeprecationWarning", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    assert done.stderr.count(f"ort_lite.{old} is now ort_lite.{NAMES[old]}.{name}") == 1


def test_other_names_are_not_found() -> None:
    assert spec_of("ort_lite.nosuch") is None
    with pytest.raises(ModuleNotFoundError, match=re.escape("No module named 'ort_lite.nosuch'")):
        import_module("ort_lite.nosuch")
    with pytest.raises(AttributeError, match="has no attribute 'InferenceSesion'"):
        _ = import_module("ort_lite.session").InferenceSesion


def test_importing_a_folder_does_not_hide_the_function_of_its_name() -> None:
    import_module("ort_lite.load.files")
    assert ort_lite.load is import_module("ort_lite.load.load").load


def test_a_session_that_was_pickled_by_old_names_comes_back() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> main (float[3] x) => (float[3] y) { y = Neg(x) }'
    options = ort_lite.SessionOptions()
    options.logid = "mine"
    options.add_provider("CPUExecutionProvider", {"winograd": "0"})
    pickled = pickle.dumps(ort_lite.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options), 0)
    for new, old in (
        (b"cort_lite.compat.inference_session\nInferenceSession", b"cort_lite.session.session\nInferenceSession"),
        (b"cort_lite.compat.ort_options\nSessionOptions", b"cort_lite.options.options\nSessionOptions"),
        (b"cort_lite.compat.chosen\nChosen", b"cort_lite.options.chosen\nChosen"),
        (b"cort_lite.session.preparation\nArguments", b"cort_lite.pipeline.preparation\nArguments"),
    ):
        assert new in pickled
        pickled = pickled.replace(new, old)
    with pytest.warns(DeprecationWarning, match=r"is now ort_lite\."):
        session = pickle.loads(pickled)
    assert type(session) is ort_lite.InferenceSession
    assert session.get_session_options().logid == "mine"
    assert [each.options for each in session.get_session_options().provider_choices] == [{"winograd": "0"}]
    np.testing.assert_array_equal(session.run(None, {"x": np.ones(3, np.float32)})[0], -np.ones(3, np.float32))
