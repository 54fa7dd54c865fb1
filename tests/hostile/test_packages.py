"""Model packages from strangers: they reach no file outside of their folder, and no amount of JSON or odd types hurts."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

import ort_lite
from ort_lite.compat.packages.paths import MOST_BYTES
from ort_lite.errors import Fail, InvalidArgument, NoSuchFile, OrtLiteError

TEXT = '<ir_version: 10, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
MODEL = onnx.parser.parse_model(TEXT).SerializeToString()
CPU = "CPUExecutionProvider"
ASSET = f"sha256:{'0' * 64}"
FOLDER = ASSET.replace(":", "-")
INITIALIZERS = "session.model_external_initializers_file_folder_path"


def put(root: Path, info: Any = None, variant: dict[str, Any] | None = None, **more: Any) -> Path:
    """Write a package, with a folder and a file outside of it that it tries to reach."""
    (root / "outside" / "v").mkdir(parents=True)
    (root / "outside" / "secret.json").write_text('{"model_file": "m.onnx"}')
    package = root / "package"
    (package / "v").mkdir(parents=True)
    for folder in (package / "v", root / "outside", root / "outside" / "v"):
        (folder / "m.onnx").write_bytes(MODEL)
    body = {"ep": CPU, "executor_info": {"ort": {"model_file": "m.onnx"} if info is None else info}, **(variant or {})}
    manifest = {"schema_version": "1.0", "components": {"c": {"variants": {"v": body}}}, **more}
    (package / "manifest.json").write_text(json.dumps(manifest))
    return package


def use(package: Path, **permission: bool) -> ort_lite.InferenceSession:
    context = ort_lite.ModelPackageContext(package, **permission)
    return context.select_component("c", ort_lite.ModelPackageOptions(ort_lite.SessionOptions())).create_session()


def refuse(package: Path, kind: type[OrtLiteError] = InvalidArgument, match: str | None = None) -> None:
    """Both classes refuse the package."""
    with pytest.raises(kind, match=match):
        use(package)


OUTSIDE: dict[str, Callable[[str], dict[str, Any]]] = {
    "a model": lambda out: {"info": {"model_file": f"{out}/m.onnx"}},
    "a folder of weights": lambda out: {"info": {"model_file": "m.onnx", "session_options": {INITIALIZERS: out}}},
    "a context": lambda out: {"info": {"model_file": "m.onnx", "session_options": {"ep.context_file_path": f"{out}/m.onnx"}}},
    "a file of options": lambda out: {"info": f"{out}/secret.json"},
    "the folder of a variant": lambda out: {"variant": {"variant_directory": f"{out}/v"}},
    "a component": lambda out: {"components": {"c": f"{out}/component.json"}},
    "a shared asset": lambda out: {"shared_assets": {ASSET: out}, "info": {"model_file": f"{ASSET}/m.onnx"}},
}
WAYS: dict[str, Callable[[Path], str]] = {
    "up": lambda package: "../../outside",
    "up from inside": lambda package: "v/../../../outside",
    "absolute": lambda package: str(package.parent / "outside"),
    "a link": lambda package: "link",
    "a link behind a folder": lambda package: "inner/link",
    "a link to a link": lambda package: "chain",
}


def link(package: Path) -> None:
    """Put links that leave the package, into its root and into the folder of its variant."""
    for folder in (package, package / "v"):
        (folder / "inner").mkdir()
        (folder / "link").symlink_to(package.parent / "outside")
        (folder / "inner" / "link").symlink_to("../" * len(folder.relative_to(package.parent).parts) + "../outside")
        (folder / "chain").symlink_to("inner/link")


@pytest.mark.parametrize("layout", ["portable", "installed"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", OUTSIDE)
def test_nothing_outside_is_reached(what: str, way: str, layout: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    put(tmp_path, **OUTSIDE[what](WAYS[way](package)), layout=layout)
    (tmp_path / "outside" / "component.json").write_text(json.dumps({"variants": {}}))
    link(package)
    refuse(package, match=r"outside of the package|not allowed in portable layout")


@pytest.mark.parametrize("what", ["a model", "a folder of weights", "a file of options", "the folder of a variant"])
def test_the_caller_can_allow_it(what: str, tmp_path: Path) -> None:
    package = put(tmp_path, **OUTSIDE[what](str(tmp_path / "outside")), layout="installed")
    assert use(package, allow_external_paths=True).get_inputs()[0].name == "x"
    assert ort_lite.ModelPackage.open(package, allow_external_paths=True).get_info()["layout"] == "installed"


def test_an_installed_package_may_go_up_inside_itself(tmp_path: Path) -> None:
    package = put(tmp_path, {"model_file": "../v/m.onnx"}, layout="installed")
    assert use(package).get_inputs()[0].name == "x"


@pytest.mark.parametrize("name", ["../outside", "/etc", "..", "a/../../outside"])
def test_names_that_escape(name: str, tmp_path: Path) -> None:
    """The name of a variant is its folder by default."""
    package = put(tmp_path, components={"../c": {"variants": {name: {"ep": CPU}}}})
    refuse(package)
    made = ort_lite.ModelPackage.open(put(tmp_path / "second"))
    with pytest.raises(InvalidArgument):
        made.set_variant("c", name, "{}")
    assert [each["name"] for each in made.get_info()["components"][0]["variants"]] == ["v"]


@pytest.mark.parametrize(
    "name", ["manifest.json", "v/info.json", "shared_assets", f"shared_assets/{FOLDER}", "c/component.json"]
)
def test_links_in_place_of_the_packages_own_files(name: str, tmp_path: Path) -> None:
    package = put(tmp_path, {"model_file": f"{ASSET}/m.onnx"} if "shared" in name else "info.json")
    if name == "c/component.json":
        put(tmp_path / "other", components={"c": "c"})
        package = tmp_path / "other" / "package"
    place, outside = package / name, tmp_path / "outside"
    (outside / FOLDER).mkdir()
    for file in ("manifest.json", "info.json", "component.json"):
        (outside / file).write_bytes((package / "manifest.json").read_bytes())
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(outside if "shared" in name else outside / place.name)
    refuse(package, match="outside of the package")


def test_links_inside_are_followed_unless_the_caller_forbids(tmp_path: Path) -> None:
    package = put(tmp_path, variant={"variant_directory": "link"})
    (package / "link").symlink_to("v")
    assert use(package).get_inputs()[0].name == "x"
    with pytest.raises(InvalidArgument, match="follow_symlinks is False"):
        ort_lite.ModelPackage.open(package, follow_symlinks=False)


def test_links_without_end(tmp_path: Path) -> None:
    package = put(tmp_path, "loop")
    (package / "v" / "loop").symlink_to("loop")
    refuse(package, NoSuchFile, "does not exist")


def test_a_link_that_appears_later(tmp_path: Path) -> None:
    """Paths are resolved again for each session."""
    package = put(tmp_path)
    context = ort_lite.ModelPackageContext(package)
    component = context.select_component("c", ort_lite.ModelPackageOptions(ort_lite.SessionOptions()))
    (package / "v" / "m.onnx").unlink()
    (package / "v" / "m.onnx").symlink_to(tmp_path / "outside" / "m.onnx")
    with pytest.raises(InvalidArgument, match="outside of the package"):
        component.create_session()


# JSON


DEEP = ["[" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, '{"a":' + "[" * 70 + "]" * 70 + "}"]
ODD = ["9" * 5000, '"\\ud800"', "1e999", "-Infinity"]


@pytest.mark.parametrize("text", [*DEEP, *ODD], ids=range(len(DEEP) + len(ODD)))
@pytest.mark.parametrize("name", ["manifest.json", "v/info.json"])
def test_json_that_nothing_needs(name: str, text: str, tmp_path: Path) -> None:
    package = put(tmp_path, "info.json")
    (package / name).write_text(text)
    refuse(package, match="JSON")
    with pytest.raises(InvalidArgument, match="JSON"):
        ort_lite.ModelPackage().set_additional_metadata_json("manifest", json=text)


@pytest.mark.parametrize("name", ["manifest.json", "v/info.json"])
def test_json_that_is_too_large(name: str, tmp_path: Path) -> None:
    package = put(tmp_path, "info.json")
    with (package / name).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    refuse(package, match="bytes, expected")
    with pytest.raises(InvalidArgument, match="characters, expected"):
        ort_lite.ModelPackage().set_component_inline("c", " " * (MOST_BYTES + 1))


@pytest.mark.parametrize("value", ["info.json", "component.json"])
def test_files_that_are_named_again_and_again(value: str, tmp_path: Path) -> None:
    """Each costs the time of its size, so all together are limited."""
    variants = {str(number): {"variant_directory": "v", "executor_info": {"ort": "info.json"}} for number in range(100)}
    many = {"c": {"variants": variants}} if value == "info.json" else {str(number): value for number in range(100)}
    package = put(tmp_path, components=many)
    (package / "v" / "info.json").write_text(json.dumps({"text": " " * (MOST_BYTES - 100)}))
    (package / "component.json").write_text(json.dumps({"variants": {}, "additional_metadata": " " * (MOST_BYTES - 100)}))
    refuse(package, match="together")


def test_entries_without_end(tmp_path: Path) -> None:
    """Each costs some time however short it is."""
    entries: dict[str, Any] = {str(number): {} for number in range(20_000)}
    paths = dict.fromkeys(entries, "info.json")
    for number, components in enumerate(
        [{"c": {"variants": entries}}, paths, {"c": {"variants": {"v": {"executor_info": paths}}}}]
    ):
        package = put(tmp_path / str(number), components=components)
        (package / "v" / "info.json").write_text("{}")
        (package / "info.json").write_text('{"variants": {}}')
        refuse(package, match="together")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"\0", b'{"a": "\xc3"}', b"null", b"[]", b"3"])
@pytest.mark.parametrize("name", ["manifest.json", "v/info.json"])
def test_files_that_are_no_objects(name: str, data: bytes, tmp_path: Path) -> None:
    package = put(tmp_path, "info.json")
    (package / name).write_bytes(data)
    refuse(package)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
@pytest.mark.parametrize("name", ["manifest.json", "v/info.json", "v/m.onnx"])
def test_pipes_do_not_block(name: str, tmp_path: Path) -> None:
    package = put(tmp_path, {"model_file": "m.onnx"} if name == "v/m.onnx" else "info.json")
    (package / name).unlink(missing_ok=True)
    os.mkfifo(package / name)
    refuse(package, Fail, "named pipe")


@pytest.mark.parametrize("path", ["", "a\0b", ".", "v", "none.onnx", "\\..\\..", "m.onnx/x", "a" * 5000])
def test_models_that_are_no_files(path: str, tmp_path: Path) -> None:
    refuse(put(tmp_path, {"model_file": path}), OrtLiteError)


VALUES: list[Any] = [None, True, 3, 1.5, "text", [], [1], {}, {"a": None}]
FIELDS = ["schema_version", "package_name", "layout", "components", "shared_assets", "additional_metadata"]
INNER = ["variant_directory", "ep", "device", "compatibility_string", "executor_info"]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("key", [*FIELDS, *INNER, "ort", "model_file", "session_options", "provider_options"])
def test_values_of_other_types(key: str, value: Any, tmp_path: Path) -> None:
    """Each is refused, or means nothing; none ends in an error that is not ort-lite's."""
    if key in FIELDS:
        package = put(tmp_path, **{key: value})
    elif key in INNER:
        package = put(tmp_path, variant={key: value})
    else:
        package = put(tmp_path, value if key == "ort" else {"model_file": "m.onnx", key: value})
    try:
        use(package).close()
    except OrtLiteError:
        return
    assert ort_lite.ModelPackage.open(package).get_info()["components"]


# Deleting and writing


def test_removing_and_pruning_delete_nothing_outside(tmp_path: Path) -> None:
    package = put(tmp_path, layout="installed", variant={"variant_directory": str(tmp_path / "outside" / "v")})
    made = ort_lite.ModelPackage.open(package, allow_external_paths=True)
    (package / "shared_assets").mkdir()
    (package / "shared_assets" / FOLDER).symlink_to(tmp_path / "outside")
    (package / "shared_assets" / "x.tmp.1").symlink_to(tmp_path / "outside")
    os.utime(package / "shared_assets" / "x.tmp.1", (0, 0), follow_symlinks=False)
    made.remove_shared_asset(ASSET)
    made.remove_shared_asset("../../outside")
    made.remove_component("c")
    made.prune()
    assert sorted(os.listdir(tmp_path / "outside")) == ["m.onnx", "secret.json", "v"]


def test_the_package_itself_is_never_pruned(tmp_path: Path) -> None:
    package = put(tmp_path, components={"c": "c.json"})
    (package / "c.json").write_text('{"variants": {"self": {"variant_directory": "."}}}')
    made = ort_lite.ModelPackage.open(package)
    made.remove_component("c")
    made.prune()
    assert (package / "manifest.json").exists()


def test_a_commit_does_not_write_through_links(tmp_path: Path) -> None:
    package = put(tmp_path, components={"c": "inner/c.json"})
    (package / "inner").mkdir()
    (package / "inner" / "c.json").write_text('{"variants": {}}')
    made = ort_lite.ModelPackage.open(package)
    (package / "inner" / "c.json").unlink()
    (package / "inner").rmdir()
    (package / "inner").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidArgument, match="outside of the package"):
        made.commit()
    (package / "inner").unlink()
    (package / "shared_assets").symlink_to(tmp_path / "outside")
    made.add_shared_asset(package / "v")
    with pytest.raises(InvalidArgument, match="outside of the package"):
        made.commit()
    assert sorted(os.listdir(tmp_path / "outside")) == ["m.onnx", "secret.json", "v"]


def test_a_shared_asset_that_changes_before_the_commit(tmp_path: Path) -> None:
    made = ort_lite.ModelPackage.open(put(tmp_path))
    made.add_shared_asset(tmp_path / "outside" / "v")
    (tmp_path / "outside" / "v" / "m.onnx").write_bytes(b"other")
    with pytest.raises(Fail, match="changed: its hash is"):
        made.commit()
    assert os.listdir(tmp_path / "package" / "shared_assets") == []
