"""What the repository promises its readers: commands, pages and committed data."""

import os
import re
import tomllib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ort_lite._version import __version__

ROOT = Path(__file__).parents[1]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "plugins/*/*.md", "tests/data/*/*.md", "examples/*/*.md", "examples/data/*/*.md")
    for page in ROOT.glob(pattern)
)
INSTALL_ADVICE = [
    "CHANGELOG.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "examples",
    "plugins",
    "ort_lite",
    "providers",
    "transforms",
]
FROM_AN_INDEX = re.compile(r"pip3? install (?:[^\n`;&|]*\s)?[\"']?ort-lite")
MAY_NAME_THE_INDEX = {"docs/releasing.md"}
COMMITTED_DATA_LIMIT = 300_000
DIGITS = ROOT / "examples" / "digits"
EXAMPLE_DATA = sorted([*DIGITS.iterdir(), *(ROOT / "examples" / "data").glob("*/*")])


def text(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_commands_of_a_page_exist(page: str) -> None:
    commands = set(re.findall(r"^(?:\$ )?make (\w+)", text(page), re.MULTILINE))
    commands |= set(re.findall(r"`make (\w+)`", text(page)))
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    assert {"test"} <= commands <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)", prose)
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_marks_that_silence_tools_are_few() -> None:
    """`fmt: skip` is for tables that read better as they are; numba has no types."""
    folders = ("ort_lite", "providers", "transforms", "plugins", "tests")
    sources = {page.relative_to(ROOT).as_posix(): page for folder in folders for page in (ROOT / folder).rglob("*.py")}
    untyped = {f"ort_lite/native/{name}.py" for name in ("frontend", "libraries", "lowering", "marks", "translator", "writing")}
    skips, ignores = "# fmt:" + " skip", "# type:" + " ignore"
    assert sum(page.read_text(encoding="utf-8").count(skips) for page in sources.values()) <= 36
    assert sum(page.read_text(encoding="utf-8").count(ignores) for name, page in sources.items() if name not in untyped) <= 8


@pytest.mark.parametrize("place", INSTALL_ADVICE)
def test_nothing_installs_ort_lite_from_a_package_index(place: str) -> None:
    """The project is on no index, where anybody could register its names."""
    files = [path for path in (ROOT / place).rglob("*") if path.is_file()] or [ROOT / place]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8", errors="replace") for path in files}
    assert [name for name, text in texts.items() if name not in MAY_NAME_THE_INDEX and FROM_AN_INDEX.search(text)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install ort-lite", True),
        ('pip install "ort-lite[kernels]"', True),
        ("pip install --upgrade numpy 'ort-lite-kernels'", True),
        ("pip install ./plugins/ort-lite-serve", False),
        ("pip install -e . && ort-lite providers", False),
        ("`pip install .` installs ort-lite", False),
    ],
)
def test_a_name_on_an_index_is_told_from_a_folder(text: str, found: bool) -> None:
    assert bool(FROM_AN_INDEX.search(text)) == found


def test_the_changelog_covers_the_version() -> None:
    assert re.search(rf"^## {re.escape(__version__)}\b", text("CHANGELOG.md"), re.MULTILINE)


def test_the_licence_is_apache_2() -> None:
    assert "Apache License" in text("LICENSE")
    assert tomllib.loads(text("pyproject.toml"))["project"]["license"] == "Apache-2.0"


def test_ci_runs_the_tests() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert re.search(r"^make test$", text(".ci", "run"), re.MULTILINE)


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_four_parts_in_half_a_screen(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    assert re.match(r"# \S", content)
    assert re.findall(r"^\*(\w+)\*: \S", content, re.MULTILINE) == ["Context", "Choice", "Rejected", "Measured"]
    assert len(content.splitlines()) <= 40


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [page.name[:5] for page in DECISIONS]
    assert numbers == [f"{number:04d}-" for number in range(1, len(DECISIONS) + 1)]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["docs"], *project["optional-dependencies"]["test"]]
    names = {re.split(r"[<>=~!\s\[;]", requirement)[0] for requirement in required}
    page = text("docs", "decisions", "0003-dependencies.md")
    assert names == {name for name in names if f"`{name}`" in page}


@pytest.mark.parametrize("file", EXAMPLE_DATA, ids=lambda file: file.name)
def test_committed_example_data_is_small(file: Path) -> None:
    assert 0 < file.stat().st_size < COMMITTED_DATA_LIMIT


def test_the_digits_model_is_valid_and_accurate() -> None:
    """By onnxruntime: what the examples then show of ort-lite is ort-lite's doing."""
    onnx.checker.check_model(DIGITS / "digits_cnn.onnx", full_check=True)
    session = onnxruntime.InferenceSession(DIGITS / "digits_cnn.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["N", 1, 8, 8]
    with np.load(DIGITS / "test_images.npz") as data:
        (probabilities,) = session.run(["probabilities"], {"images": data["images"]})
        assert len(data["labels"]) == 360
        assert (probabilities.argmax(axis=1) == data["labels"]).mean() >= 0.98
