"""Model packages with partitions that a provider of ort-lite compiled: both runtimes select them, whichever of the two wrote them."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from ort_lite_accelerator import provider

import ort_lite
from tests.devices_inside_onnxruntime import CARD, CHAIN, EXPECTED, X, devices, model, options
from tests.inside_onnxruntime import register

CPU = "CPUExecutionProvider"
APIS = [ort_lite, onnxruntime]


@pytest.fixture(scope="module", autouse=True)
def register_card() -> None:
    register(CARD)


def session_options(api: Any, name: str) -> Any:
    if api is onnxruntime:
        return api.SessionOptions() if name == CPU else options(devices()[0])
    made = api.SessionOptions()
    made.add_provider(name, {})
    return made


def write(api: Any, root: Path) -> str:
    """Write a package of a model for the CPU, one that is compiled for the card, and one for another version of the card."""
    for name in ("cpu", "old", "compiled"):
        (root / name).mkdir(parents=True)
        (root / name / "m.onnx").write_bytes(model(CHAIN))
    if api is ort_lite:
        api.InferenceSession(model(CHAIN), providers=[CARD, CPU]).save_compiled(root / "compiled" / "m.onnx")
    else:
        compiler = api.ModelCompiler(options(devices()[0]), model(CHAIN), embed_compiled_data_into_model=True)
        compiler.compile_to_file(str(root / "compiled" / "m.onnx"))
    (root / "manifest.json").write_text('{"schema_version": "1.0", "components": {"c": {"variants": {}}}}')
    package = api.ModelPackage.open(str(root))
    for name, owner, version in (("cpu", CPU, ""), ("old", CARD, "npu-program 9.0"), ("compiled", CARD, "npu-program 2.0")):
        variant = {"variant_directory": name, "ep": owner, **({"compatibility_string": version} if version else {})}
        package.set_variant("c", name, json.dumps(variant))
        package.set_variant_executor_info_inline("c", name, "ort", '{"model_file": "m.onnx"}')
    package.commit()
    return str(root)


@pytest.mark.parametrize(("writer", "reader"), list(product(APIS, APIS)), ids=lambda api: str(api.__name__))
def test_the_compiled_variant_is_selected(writer: Any, reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(writer, tmp_path / "package")
    monkeypatch.setattr(provider, "compile_program", None)  # an error if anything is compiled again
    for name, variant in ((CARD, "compiled"), (CPU, "cpu")):
        chosen = reader.ModelPackageOptions(session_options(reader, name))
        component = reader.ModelPackageContext(root).select_component("c", chosen)
        assert component.get_selected_variant_name() == variant
        np.testing.assert_array_equal(component.create_session().run(None, {"x": X})[0], EXPECTED)
