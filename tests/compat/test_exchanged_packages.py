"""A package that ort-lite or onnxruntime wrote is read by both, also after the other one changed it."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from tests.compat.test_packages import APIS, HEAD, MODEL, VARIANT, X, opened


@pytest.mark.parametrize("writer", APIS)
def test_both_read_a_package(writer: Any, tmp_path: Path) -> None:
    root = tmp_path / "p"
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(X.tobytes())
    package = writer.ModelPackage()
    package.set_component_inline("c", '{"variants": {}}')
    uri = package.add_shared_asset(str(tmp_path / "weights"))
    package.commit(str(root))
    (root / "cpu").mkdir()
    model = onnx.parser.parse_model(HEAD + "<float[2] w = {0, 0}> { y = Add(x, w) }")
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (root / "cpu" / "m.onnx").write_bytes(model.SerializeToString())
    package.set_variant("c", "cpu", '{"variant_directory": "cpu", "ep": "CPUExecutionProvider", "device": "CPU"}')
    options = {"session.model_external_initializers_file_folder_path": uri}
    info = {"model_file": "m.onnx", "session_options": options, "more": 1}
    package.set_variant_executor_info_inline("c", "cpu", "ort", json.dumps(info))
    package.commit()
    infos = [api.ModelPackage.open(str(root)).get_info() for api in APIS]
    assert infos[0] == infos[1]
    for api in APIS:
        for own in (None, api.SessionOptions()):
            component, session = opened(api, str(root), session=own)
            assert (component.get_selected_variant_name(), component.get_selected_variant_folder_path()) == (
                "cpu",
                str(root / "cpu"),
            )
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)


def write_every_form(api: Any, root: Path) -> Any:
    """Write a package whose component "c" has a model in a shared asset, and settings in a file; "d" has a file of its own."""
    for folder in ("asset", "p/shared", "p/own", "p/d/v"):
        (root / folder).mkdir(parents=True)
        (root / folder / "m.onnx").write_bytes(MODEL)
    (root / "p" / "own" / "info.json").write_text(json.dumps({"model_file": "m.onnx"}))
    (root / "p" / "d" / "component.json").write_text(json.dumps({"variants": {"v": {**VARIANT, "variant_directory": "v"}}}))
    (root / "p" / "manifest.json").write_text('{"schema_version": "1.0", "components": {"c": {"variants": {}}}}')
    package = api.ModelPackage.open(str(root / "p"))
    package.set_metadata(name="n", version="1.2", description="é")
    uri = package.add_shared_asset(str(root / "asset"))
    package.set_variant("c", "shared", json.dumps({"variant_directory": "shared", "ep": VARIANT["ep"]}))
    package.set_variant_executor_info_inline("c", "shared", "ort", json.dumps({"model_file": f"{uri}/m.onnx"}))
    package.set_variant("c", "own", json.dumps({"variant_directory": "own", "ep": VARIANT["ep"]}))
    package.set_variant_executor_info_external("c", "own", "ort", "info.json")
    package.set_component_external("d", "d/component.json")
    package.set_additional_metadata_json("manifest", json='{"a": [1, null]}')
    return package


def check_both_read(root: str, variants: dict[str, str]) -> None:
    """Check that both runtimes describe the package equally, select these variants and run them."""
    infos = [api.ModelPackage.open(root).get_info() for api in APIS]
    assert infos[0] == infos[1]
    for api in APIS:
        context = api.ModelPackageContext(root)
        assert sorted(context.get_component_names()) == sorted(variants)
        for name, variant in variants.items():
            component = context.select_component(name, api.ModelPackageOptions(api.SessionOptions()))
            assert component.get_selected_variant_name() == variant
            np.testing.assert_array_equal(component.create_session().run(None, {"x": X})[0], -X)


@pytest.mark.parametrize(("writer", "other"), list(product(APIS, APIS)))
def test_both_read_every_form_and_what_either_changes(writer: Any, other: Any, tmp_path: Path) -> None:
    root = str(tmp_path / "p")
    write_every_form(writer, tmp_path).commit()
    check_both_read(root, {"c": "shared", "d": "v"})
    package = other.ModelPackage.open(root)
    package.remove_variant("c", "shared")
    package.commit()
    check_both_read(root, {"c": "own", "d": "v"})
    package.set_variant_executor_info_inline("c", "own", "ort", '{"model_file": "m.onnx"}')
    if other is onnxruntime:
        package.remove_component("d")  # its dense commit writes another folder for the variant
    package.commit(mode=other.ModelPackageWriteMode.DENSE)
    check_both_read(root, {"c": "own"} if other is onnxruntime else {"c": "own", "d": "v"})
