"""Pages with figures: the repository's are what the record gives, and what is generated from a record."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from ort_lite.tools.cli.benchmark.rivals import Rival
from tests.benchmarks import table
from tests.benchmarks.document import BEGIN, END, PAGES, performance, readme, with_body
from tests.benchmarks.measurements import measured, operator
from tests.benchmarks.operators import operator_names
from tests.benchmarks.record import merge, read, write
from tests.benchmarks.rows import row_names, rows
from tests.benchmarks.speed_chart import CHARTS

PAGE = f"# Speed\n\nBy hand.\n\n{BEGIN}\nold\n\n{END}\nMore by hand.\n"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_are_what_the_record_gives(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    command = "python -m tests.benchmarks.table --render"
    assert with_body(page, PAGES[path](read())) == page, f"{path.name} is out of date: run {command}"


@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.name)
def test_charts_are_what_the_record_gives(path: Path) -> None:
    assert CHARTS[path](read()) == path.read_text(encoding="utf-8"), "run python -m tests.benchmarks.table --render"


def test_only_the_part_between_the_markers_is_replaced() -> None:
    assert with_body(PAGE, "new\n") == PAGE.replace("old", "new")
    with pytest.raises(ValueError, match="Generated from"):
        with_body("# Speed\n", "new")


def test_both_rivals_and_numbers_of_threads_are_side_by_side() -> None:
    found = [
        measured("GEMM 512", 1, 2.0, theirs=2e-3, noise=1.05),
        measured("GEMM 512", 2, 0.5, features=()),
        measured("GEMM 512", 1, None, rival="openvino", ours=2e-3, theirs=5e-3),
        measured("light_vgg19", 1, 8.0),
    ]
    text = performance(merge((), found))
    assert (
        "| ort-lite, 1 thread | onnxruntime, 1 thread | OpenVINO, 1 thread | ort-lite, 2 threads | onnxruntime, 2 threads |"
        in text
    )
    assert "| light_vgg19 | 1 ms | 8.00 (8 ms) |  |  |  |" in text
    assert "| GEMM 512 | 1 ms | 2.00 (2 ms), noise 5% | results differ (5 ms) | 1 ms | 0.50 (0.5 ms) |" in text
    assert "| geometric mean |  | **4.00** |  |  | **0.50** |" in text
    assert text.index("light_vgg19 |") < text.index("| GEMM 512 |"), "lines are in the order of the rows"
    assert "| Alpha | **4.00** | **0.50** |  |" in text
    assert "The noise exceeds 3% in 1 of 3 measurements." in text


def test_operators_and_other_models_have_sections_of_their_own() -> None:
    slow = [operator("Add", f"{k}x3", f"{k}x3*", ratio=k / 100) for k in range(10, 22)]
    text = performance(merge((), [measured(), measured("mine", ratio=7.0), *slow]))
    models, others, operators = text.split("\n### ")
    assert "mine" not in models
    assert others.startswith("Other models")
    assert "| mine | 1 ms | 7.00 (7 ms) |" in others
    assert "12 of 12: `Add 10x3 10x3* float32` (0.10); `Add 11x3" in operators
    assert "(0.19); and 2 more." in operators
    assert "<summary>All 12 operators</summary>" in operators
    assert "| `Add 21x3 21x3* float32` | 1 ms | 0.21 (0.21 ms) |" in operators


def test_a_readme_without_losses_says_so() -> None:
    assert readme([measured("GEMM 512", 1, 2.0)]).endswith("\nNo row is slower.")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["table", *arguments])
    table.main()


@pytest.mark.slow
def test_the_command_updates_a_record_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, page = tmp_path / "record.jsonl", tmp_path / "page.md"
    page.write_text(PAGE)
    files = ("--record", str(record), "--document", str(page))
    run(monkeypatch, "--only", "MLP of one row", "--seconds", "0", *files)
    assert [(m.kind, m.name, m.threads, m.rival) for m in read(record)] == [
        ("model", "MLP of one row", threads, "onnxruntime") for threads in (1, 2)
    ]
    run(monkeypatch, "--operators", "--only", "Range", "--seconds", "0", *files)
    assert {m.title for m in read(record)} == {"MLP of one row", "Range (){0} ()<2000 (){1} int64"}
    text = page.read_text()
    assert "| MLP of one row |" in text
    assert "<summary>All 1 operators</summary>" in text
    page.write_text(PAGE)
    run(monkeypatch, "--render", *files)
    assert page.read_text() == text


def test_a_row_that_the_rival_cannot_run_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(table, "rival", lambda name: Rival(name, SimpleNamespace(__version__="1"), fail))
    record = tmp_path / "record.jsonl"
    write([operator("Range", "old"), operator("Range", "(){0}", "()<2000", "(){1}", dtype="int64"), measured("mine")], record)
    run(monkeypatch, "--operators", "--only", "Range", "--against", "openvino", "--record", str(record))
    assert "Range (){0} ()<2000 (){1} int64, 2  openvino: RuntimeError: no such operator" in capsys.readouterr().out
    assert [m.title for m in read(record)] == ["mine", "Range (){0} ()<2000 (){1} int64"], "the table has no line for the other"


def test_a_cpu_is_forgotten_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "record.jsonl"
    write([m for m in read() if m.name == "GEMM 512"], record)
    cpus = {m.cpu for m in read(record)}
    monkeypatch.setattr(sys, "argv", ["table", "--forget", "AMD EPYC (Zen 5)", "--record", str(record)])
    table.main()
    assert {m.cpu for m in read(record)} == cpus - {"AMD EPYC (Zen 5)"}
    with pytest.raises(SystemExit, match=r"--forget AMD EPYC \(Zen 5\): the record has"):
        table.main()


def test_operators_of_the_record_are_those_of_the_table() -> None:
    assert {m.title for m in read() if m.kind == "operator"} <= operator_names()


def test_another_record_leaves_the_pages_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "record.jsonl").write_text(f"{measured().as_json()}\n")
    run(monkeypatch, "--render", "--record", str(tmp_path / "record.jsonl"))
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_rows_are_the_same_each_time() -> None:
    first, second = (list(rows()) for _ in range(2))
    assert [row.name for row in first] == row_names()
    assert len(first) == 23
    for one, other in zip(first, second, strict=True):
        assert (one.name, one.model) == (other.name, other.model)
        assert all((one.feeds[name] == other.feeds[name]).all() for name in one.feeds | other.feeds)
