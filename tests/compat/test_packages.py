"""Model packages: both runtimes do the same to them."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_lite
from ort_lite import errors
from ort_lite.errors import Fail, InvalidArgument
from ort_lite.provider import Capability, CompiledPartition, ExecutionProvider, GraphView

APIS = [ort_lite, onnxruntime]
HEAD = '<ir_version: 10, opset_import: ["": 17]> g (float[2] x) => (float[2] y)'
MODEL = onnx.parser.parse_model(HEAD + "{ y = Neg(x) }").SerializeToString()
X = np.array([1, -2], np.float32)
VARIANT = {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "m.onnx"}}}


def put(root: Path, variants: dict[str, Any], **more: Any) -> str:
    """Write a package of one component, and a model for each variant."""
    for name in variants:
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "m.onnx").write_bytes(MODEL)
    manifest = {"schema_version": "1.0", "components": {"c": {"variants": variants}}, **more}
    (root / "manifest.json").write_text(json.dumps(manifest))
    return str(root)


def opened(api: Any, root: str, options: Any = None, session: Any = None) -> Any:
    component = api.ModelPackageContext(root).select_component("c", api.ModelPackageOptions(options or api.SessionOptions()))
    return component, component.create_session(*([] if session is None else [session]))


def outcome(act: Callable[[], Any], root: str) -> Any:
    """Return a result without the folder that it depends on, or the error."""
    try:
        return json.loads(json.dumps(act()).replace(root, "ROOT"))
    except Exception as error:  # noqa: BLE001  what comes is compared
        return error


def agree(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, Exception):
        return isinstance(ours, getattr(errors, type(theirs).__name__, type(theirs)))
    return bool(ours == theirs)


# Writing

ASSET = "sha256:538f92a11aa0434db0ac87b9915869de9e3b6e0ab0cbc80f06f0a4232d8f57aa"
STEPS: list[Callable[[Any, Any, str], Any]] = [
    lambda p, api, root: p.get_info(),
    lambda p, api, root: p.commit(),
    lambda p, api, root: p.set_component_inline("c", '{"variants": {}}'),
    *(lambda p, api, root, text=text: p.set_component_inline("d", text) for text in ("{bad", "{}", "[]", '{"variants":{},"x":1}')),
    *(lambda p, api, root, text=text: p.set_component_inline("d", text) for text in ('{"variants":3}', '{"variants":{"a":3}}', "NaN")),
    lambda p, api, root: p.set_component_external("e", "e"),
    lambda p, api, root: p.set_variant("c", "v", '{"variant_directory": "nowhere"}'),
    lambda p, api, root: p.set_variant("c", "v", '{"variant_directory": "../v"}'),
    lambda p, api, root: p.set_variant("c", "v", '{"variant_directory": "/v"}'),
    lambda p, api, root: p.set_variant("c", "../v", "{}"),
    lambda p, api, root: p.set_variant("c", "v", '{"device": 3}'),
    lambda p, api, root: p.set_variant("c", "v", '{"executor_info": {"ort": 3}}'),
    lambda p, api, root: p.set_variant("none", "v", "{}"),
    lambda p, api, root: p.set_variant("c", "v", '{"ep":"CPUExecutionProvider","device":"cpu","compatibility_string":"é"}'),
    lambda p, api, root: p.set_variant_executor_info_inline("c", "v", "ort", '{"model_file":"m.onnx","n":[1.5,null,true]}'),
    lambda p, api, root: p.set_variant_executor_info_inline("c", "v", "ort", "[]"),
    lambda p, api, root: p.set_variant_executor_info_external("c", "v", "other", "x.json"),
    lambda p, api, root: p.set_metadata(name="n", version="1", description="d"),
    lambda p, api, root: p.set_metadata(name=""),
    lambda p, api, root: p.set_layout("elsewhere"),
    lambda p, api, root: p.add_shared_asset(root + "/asset"),
    lambda p, api, root: p.add_shared_asset(root + "/asset", copy_in=False),
    lambda p, api, root: p.add_shared_asset(root + "/asset", expected_uri="sha256:0"),
    lambda p, api, root: p.add_shared_asset(root + "/none"),
    lambda p, api, root: p.add_shared_asset(root + "/linked"),
    lambda p, api, root: api.ModelPackage.compute_directory_hash(root + "/asset"),
    lambda p, api, root: api.ModelPackage.compute_directory_hash(root + "/none"),
    lambda p, api, root: p.set_additional_metadata_json("manifest", json='{"a": 1}'),
    lambda p, api, root: p.set_additional_metadata_json("component", "c", json='"text"'),
    lambda p, api, root: p.set_additional_metadata_json("variant", "c", "none", "[1]"),
    lambda p, api, root: p.set_additional_metadata_json("variant", "c"),
    lambda p, api, root: p.set_additional_metadata_json("manifest", "c"),
    lambda p, api, root: p.set_additional_metadata_json("world"),
    lambda p, api, root: p.get_info(),
    lambda p, api, root: p.get_component_json("c"),
    lambda p, api, root: p.get_component_json("none"),
    lambda p, api, root: p.set_additional_metadata_json("variant", "c", "v", "[1]"),
    lambda p, api, root: p.get_variant_json("c", "v"),
    lambda p, api, root: p.get_variant_json("c", "none"),
    lambda p, api, root: p.resolve_asset_uri(ASSET),
    lambda p, api, root: p.resolve_asset_uri("sha256:1"),
    *(lambda p, api, root, text=text: p.resolve_string_ref(text) for text in (f"{ASSET}/a.txt", f"{ASSET}/../x", "x", "", "/x")),
    lambda p, api, root: p.resolve_string_ref("x", must_exist=True),
    lambda p, api, root: p.resolve_string_ref(f"{ASSET}/none", must_exist=True),
    lambda p, api, root: p.commit(root + "/out"),
    lambda p, api, root: p.remove_variant_executor_info("c", "v", "other"),
    lambda p, api, root: p.remove_variant_executor_info("c", "v", "none"),
    lambda p, api, root: p.remove_variant_executor_info("c", "none", "none"),
    lambda p, api, root: p.commit(root + "/second"),
    lambda p, api, root: p.get_info(),
    lambda p, api, root: p.commit(root + "/second"),
    lambda p, api, root: p.set_component_external("e", "e/component.json"),
    lambda p, api, root: p.set_component_external("f", "../f"),
    lambda p, api, root: p.commit(),
    lambda p, api, root: os.makedirs(root + "/second/e/w"),
    lambda p, api, root: p.set_variant("e", "w", '{"variant_directory": "w"}'),
    lambda p, api, root: p.commit(),
    lambda p, api, root: p.set_metadata(),  # onnxruntime forgets additional metadata by a commit, until the next change
    lambda p, api, root: p.get_info(),
    lambda p, api, root: p.remove_variant("e", "w"),
    lambda p, api, root: p.prune(),
    lambda p, api, root: os.path.exists(root + "/second/e/w"),
    lambda p, api, root: p.remove_component("e"),
    lambda p, api, root: p.prune(),
    lambda p, api, root: os.path.exists(root + "/second/e"),
    lambda p, api, root: p.remove_variant("c", "none"),
    lambda p, api, root: p.remove_component("none"),
    lambda p, api, root: p.remove_shared_asset("none"),
    lambda p, api, root: p.remove_shared_asset(ASSET),
    lambda p, api, root: p.get_info(),
    lambda p, api, root: p.commit(mode=api.ModelPackageWriteMode.DENSE),
    lambda p, api, root: p.set_component_inline(3, "{}"),
    lambda p, api, root: p.close(),
    lambda p, api, root: p.get_info(),
    lambda p, api, root: p.close(),
    lambda p, api, root: p.__enter__(),
    lambda p, api, root: api.ModelPackage.open(root + "/second").get_info(),
    lambda p, api, root: api.ModelPackage.open(root + "/none"),
    lambda p, api, root: api.ModelPackage.open(root),
]  # fmt: skip


def written(api: Any, root: Path) -> tuple[list[Any], str]:
    """The outcomes of all steps, and the manifest that they leave."""
    (root / "asset" / "sub").mkdir(parents=True)
    (root / "asset" / "a.txt").write_text("a")
    (root / "asset" / "sub" / "b").write_text("b")
    (root / "linked").mkdir()
    (root / "linked" / "link").symlink_to(root / "asset" / "a.txt")
    package = api.ModelPackage()
    found = [outcome(partial(step, package, api, str(root)), str(root)) for step in STEPS]
    return found, (root / "second" / "manifest.json").read_text()


def test_each_step_has_onnxruntimes_outcome(tmp_path: Path) -> None:
    (ours, manifest), (theirs, other) = (written(api, tmp_path / api.__name__) for api in APIS)
    differing = [(k, *pair) for k, pair in enumerate(zip(ours, theirs, strict=True)) if not agree(*pair)]
    assert differing == []
    assert manifest == other


def test_a_failed_commit_leaves_nothing(tmp_path: Path) -> None:
    package = ort_lite.ModelPackage.open(put(tmp_path / "p", {"a": {"variant_directory": "a"}}))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        package.commit(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["p"]


@pytest.mark.parametrize("api", APIS)
def test_a_component_of_its_own_file_moves_into_the_manifest(api: Any, tmp_path: Path) -> None:
    """onnxruntime writes the variant's directory as it was, which the manifest then looks for in the package."""
    root = put(tmp_path, {"a": VARIANT}, components={"c": "folder"})
    (tmp_path / "folder").mkdir()
    shutil.move(tmp_path / "a", tmp_path / "folder" / "a")
    (tmp_path / "folder" / "component.json").write_text(json.dumps({"variants": {"a": VARIANT}}))
    package = ort_lite.ModelPackage.open(root)
    package.commit(mode=ort_lite.ModelPackageWriteMode.DENSE)
    component, session = opened(api, root)
    assert component.get_selected_variant_folder_path() == str(tmp_path / "folder" / "a")
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -X)


# Reading

CONTEXT: list[Callable[[Any, Any], Any]] = [
    lambda c, api: [c.get_component_names(), c.get_component_count(), c.get_schema_version()],
    lambda c, api: [c.get_variant_names("c"), c.get_variant_count("c"), c.get_variant_ep_name("c", "a")],
    lambda c, api: c.get_variant_ep_name("c", "b"),
    lambda c, api: c.get_variant_ep_name("c", "none"),
    lambda c, api: c.get_variant_names("none"),
    lambda c, api: c.get_variant_count("none"),
    lambda c, api: c.resolve_string_ref("a/m.onnx", None, True),
    lambda c, api: c.resolve_string_ref("none", None, True),
    lambda c, api: c.resolve_string_ref("../none"),
    lambda c, api: c.select_component("none", api.ModelPackageOptions(api.SessionOptions())),
    lambda c, api: c.select_component("c", None),
    lambda c, api: api.ModelPackageOptions(None),
    lambda c, api: c.select_component("c", api.ModelPackageOptions(api.SessionOptions())).get_selected_variant_name(),
    lambda c, api: c.select_component("d", api.ModelPackageOptions(api.SessionOptions())).create_session(),
    lambda c, api: c.select_component("e", api.ModelPackageOptions(api.SessionOptions())).create_session(),
    lambda c, api: c.select_component("f", api.ModelPackageOptions(api.SessionOptions())),
]


def _in_context(act: Callable[[Any, Any], Any], api: Any, root: str) -> Any:
    return act(api.ModelPackageContext(root), api)


def test_contexts_have_onnxruntimes_outcome(tmp_path: Path) -> None:
    cpu = "CPUExecutionProvider"
    variants = {"b": {}, "g": {**VARIANT, "device": "gpu"}, "a": {**VARIANT, "compatibility_string": "x"}, "z": VARIANT}
    components = {
        "c": {"variants": variants},
        "d": {"variants": {"d": {"ep": cpu}}},
        "e": {"variants": {"e": {"ep": cpu, "executor_info": {"ort": {"model_file": "none.onnx"}}}}},
        "f": {"variants": {}},
    }
    root = put(tmp_path, variants, components=components)
    for act in CONTEXT:
        ours, theirs = (outcome(partial(_in_context, act, api, root), root) for api in APIS)
        assert agree(ours, theirs), (ours, theirs)


WRONG: list[dict[str, Any]] = [
    {"schema_version": "2.0"},
    {"schema_version": "1.x"},
    {"schema_version": "1.0.0"},
    {"schema_version": None},
    {"schema_version": 1.5},
    {"schema_version": 1},
    {"schema_version": "1.7", "future": 1},
    {"future": 1},
    {"layout": "x"},
    {"layout": 1},
    {"components": "x"},
    {"components": {"c": 3}},
    {"components": {"c": "a"}},
    {"components": {"c": "none"}},
    {"components": {"c": {"variants": []}}},
    {"components": {"c": {"variants": {"a": {"unknown": 1}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": []}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": {"ort": "none.json"}}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": {"ort": "m.onnx"}}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": {"ort": {"model_file": 3}}}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": {"ort": {"session_options": {"a": 1}}}}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": {"ort": {"provider_options": []}}}}}}},
    {"components": {"c": {"variants": {"a": {"executor_info": {"ort": {"model_file": f"{ASSET}/m.onnx"}}}}}}},
    {"shared_assets": {"sha256:0": "a"}},
    {"shared_assets": {ASSET: 3}},
    {"shared_assets": {ASSET: "a"}},
    {"package_name": 1},
]


@pytest.mark.parametrize("more", WRONG, ids=json.dumps)
def test_both_refuse_the_same_packages(more: dict[str, Any], tmp_path: Path) -> None:
    root = put(tmp_path, {"a": VARIANT}, **more)
    for read in (
        lambda api: api.ModelPackageContext(root).get_component_names(),
        lambda api: api.ModelPackage.open(root).get_info(),
    ):
        ours, theirs = (outcome(partial(read, api), root) for api in APIS)
        assert agree(ours, theirs), (ours, theirs)


# Selection and options


class Chooser(ExecutionProvider):
    """Takes Neg, and says which compatibility information it has made itself."""

    name = "ChooserExecutionProvider"
    config_keys = frozenset({"ep.chooser.mode"})

    def __init__(self, level: str = "") -> None:
        self.level = level

    def get_options(self) -> dict[str, Any]:
        return {"level": self.level}

    def check_compatibility(self, info: str) -> str | None:
        if info == "broken":
            raise RuntimeError("cannot say")
        return None if info == "mine" else "made by another one"

    def get_capability(self, graph: GraphView) -> Iterator[Capability]:
        return (Capability([node]) for node in graph if node.op_type == "Neg")

    def compile(self, partitions: Any) -> list[CompiledPartition]:
        return [_negate for _ in partitions]


def _negate(inputs: Any) -> list[Any]:
    return [-inputs[0]]


@pytest.fixture
def chooser() -> Iterator[ort_lite.SessionOptions]:
    ort_lite.register_provider(Chooser.name, Chooser)
    options = ort_lite.SessionOptions()
    options.add_provider(Chooser.name, {})
    yield options
    ort_lite.unregister_provider(Chooser.name)


def test_the_provider_chooses_the_variant(chooser: ort_lite.SessionOptions, tmp_path: Path) -> None:
    own = {**VARIANT, "ep": Chooser.name}
    info = {"model_file": "m.onnx", "session_options": {"ep.chooser.mode": "fast"}, "provider_options": {"level": "2"}}
    variants = {
        "cpu": VARIANT,
        "plain": own,
        "broken": {**own, "compatibility_string": "broken"},
        "other": {**own, "compatibility_string": "other"},
        "mine": {**own, "compatibility_string": "mine", "executor_info": {"ort": info}},
        "again": {**own, "compatibility_string": "mine"},
    }
    root = put(tmp_path, variants)
    component, session = opened(ort_lite, root, chooser)
    assert component.get_selected_variant_name() == "mine"
    assert session.get_providers()[0] == Chooser.name
    assert session.get_provider_options()[Chooser.name]["level"] == "2"
    assert session.get_session_options().get_session_config_entry("ep.chooser.mode") == "fast"
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -X)
    component, session = opened(ort_lite, root, chooser, ort_lite.SessionOptions())
    assert (component.get_selected_variant_name(), session.get_providers()) == ("mine", ["CPUExecutionProvider"])
    assert opened(ort_lite, root)[0].get_selected_variant_name() == "cpu"
    root = put(tmp_path, {name: variants[name] for name in ("cpu", "broken", "other")})
    with pytest.raises(Fail, match=r"No suitable model variant .* 'c' has none for ChooserExecutionProvider"):
        opened(ort_lite, root, chooser)


@pytest.mark.parametrize("api", APIS)
def test_given_options_win_and_unknown_entries_are_ignored(api: Any, tmp_path: Path) -> None:
    folder, unknown = "session.model_external_initializers_file_folder_path", "session.intra_op_thread_count"
    info = {"model_file": "m.onnx", "session_options": {unknown: "4", folder: "weights", "session.set_denormal_as_zero": "1"}}
    root = put(tmp_path, {"a": {**VARIANT, "executor_info": {"ort": info}}})
    _, session = opened(api, root)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -X)
    assert session.get_session_options().get_session_config_entry("session.set_denormal_as_zero") == "1" or api is onnxruntime
    own = api.SessionOptions()
    own.add_session_config_entry(folder, str(tmp_path))
    _, session = opened(api, root, session=own)
    assert session.get_session_options().get_session_config_entry(folder) == str(tmp_path)
    with pytest.raises(RuntimeError):
        session.get_session_options().get_session_config_entry("session.set_denormal_as_zero")


WRONG_TEXTS: list[Any] = [3, None, b"c"]


def test_a_closed_package_and_wrong_types(tmp_path: Path) -> None:
    root = put(tmp_path, {"a": VARIANT})
    with ort_lite.ModelPackage.open(Path(root)) as package:
        for wrong in WRONG_TEXTS:
            with pytest.raises(TypeError, match="expected str"):
                package.set_component_inline(wrong, "{}")
        with pytest.raises(InvalidArgument, match="null character"):
            package.set_component_inline("a\0b", '{"variants": {}}')
    with pytest.raises(ValueError, match="closed"):
        package.get_info()
    with pytest.raises(TypeError, match="expected SessionOptions"):
        ort_lite.ModelPackageOptions(WRONG_TEXTS[0])
