"""`ort-lite new-provider`: names, files, and that what it writes is a provider that passes the kit."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ort_lite.__main__ import main
from ort_lite.errors import InvalidArgument
from ort_lite.plugins import plugins
from ort_lite.tools.cli.new_provider_command import LICENSES, contents, names_of
from tests.tools.cli.output import parse

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "plugins" / "template"
TEMPLATES = list((ROOT / "ort_lite" / "tools" / "templates").rglob("*"))
MOST_LINES = 25


def files_below(folder: Path) -> dict[str, str]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text(encoding="utf-8") for name, path in sorted(found.items()) if "__pycache__" not in name}


def test_the_example_among_the_plugins_is_what_the_command_writes() -> None:
    assert files_below(EXAMPLE) == contents(names_of("template"), "Apache-2.0"), (
        "ort_lite/tools/templates changed: rm -r plugins/template; ort-lite new-provider template --directory plugins/template"
    )


def test_a_name_becomes_a_distribution_a_package_and_a_class() -> None:
    npu = names_of("my-npu2")
    assert (npu.distribution, npu.package, npu.provider) == ("ort-lite-my-npu2", "ort_lite_my_npu2", "MyNpu2ExecutionProvider")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("MyNpu", "'MyNpu' is no name for a provider; expected words of a-z and 0-9 joined by '-', as 'my-npu'"),
        ("2npu", "is no name for a provider"),
        ("my_npu", "is no name for a provider"),
        ("my--npu", "is no name for a provider"),
        ("", "is no name for a provider"),
        ("../npu", "is no name for a provider"),
        ("ort-lite-npu", "the distribution is called ort-lite-NAME; expected NAME alone, 'npu'"),
        ("cpu", "the package ort_lite_cpu comes with ort-lite; choose another name"),
    ],
)
def test_names_that_make_no_package_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        names_of(name)


def test_a_directory_that_exists_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["new-provider", "my-npu", "--directory", str(tmp_path)]) == 2
    assert "exists; expected a directory to make: --directory names another" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_without_a_directory_it_goes_into_one_called_like_the_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-provider", "my-npu", "--license", "MIT"]) == 0
    assert files_below(tmp_path / "ort-lite-my-npu") == contents(names_of("my-npu"), "MIT")
    assert "MyNpuExecutionProvider: 8 files in ort-lite-my-npu. Next:" in capsys.readouterr().out
    assert main(["new-provider", "my-gpu", "--json"]) == 0
    found = parse(capsys.readouterr().out)
    assert (found["provider"], found["directory"], len(found["files"])) == ("MyGpuExecutionProvider", "ort-lite-my-gpu", 8)


@pytest.mark.parametrize("license", LICENSES)
def test_the_project_says_its_licence_and_its_entry_point(license: str) -> None:
    found = contents(names_of("my-npu"), license)
    project = tomllib.loads(found["pyproject.toml"])["project"]
    assert project.get("license", "none") == license
    assert ("LICENSE" in found) == (license != "none")
    assert project["entry-points"]["ort_lite.providers"] == {"MyNpuExecutionProvider": "ort_lite_my_npu:MyNpuExecutionProvider"}
    assert [path for path, text in found.items() if "@" in text.replace("@operators", "").replace("@pytest", "")] == []


def test_the_licence_is_the_projects_own() -> None:
    assert contents(names_of("my-npu"), "Apache-2.0")["LICENSE"] == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_provider_takes_at_most_25_lines() -> None:
    source = contents(names_of("my-npu"), "none")["ort_lite_my_npu/provider.py"]
    lines = [line for line in source.splitlines()[1:] if line.strip()]
    assert 10 < len(lines) <= MOST_LINES


def test_templates_are_in_the_wheel() -> None:
    """Hatch packs all files below a package, but for those that git ignores."""
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert packed == {"packages": ["ort_lite", "providers/ort_lite_cpu", "transforms/ort_lite_transforms"]}
    assert TEMPLATES
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *map(str, TEMPLATES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ignored.stdout == ""


@pytest.mark.slow
def test_what_it_writes_is_found_by_its_entry_point_and_passes_its_tests(tmp_path: Path) -> None:
    """As after `pip install -e`: a path, and a dist-info that holds the entry point."""
    folder = tmp_path / "made"
    assert main(["new-provider", "my-npu", "--directory", str(folder)]) == 0
    entries = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]["ort_lite.providers"]
    info = tmp_path / "site" / "ort_lite_my_npu-0.1.0.dist-info"
    info.mkdir(parents=True)
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[ort_lite.providers]", *lines]))
    paths = [str(folder), str(tmp_path / "site"), *(str(ROOT / part) for part in (".", "providers", "transforms"))]
    code = f"""if True:
        import sys
        sys.path[:0] = {paths!r}
        import ort_lite, pytest
        from ort_lite import datasets
        assert ort_lite.get_available_providers() == ["MyNpuExecutionProvider", "CPUExecutionProvider"]
        model = datasets.get_example("mul_1.onnx")
        assert ort_lite.InferenceSession(model).get_providers() == ["CPUExecutionProvider"], "installed, and not enabled"
        assert ort_lite.InferenceSession(model, providers=ort_lite.get_available_providers()).get_providers()[0][:5] == "MyNpu"
        ort_lite.set_default_providers("all")
        assert ort_lite.InferenceSession(model).get_providers()[0] == "MyNpuExecutionProvider"
        ort_lite.set_default_providers([])
        sys.exit(pytest.main(["-q", "-W", "error", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests"]))
    """
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=env, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "MyNpuExecutionProvider" not in plugins.installed_providers(), "in that process alone"
