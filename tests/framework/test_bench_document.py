"""docs/performance.md: sections by CPU, of which one is replaced, and what is made of them side by side."""

import re
from pathlib import Path

import pytest

from ort_lite.commands.benchmark.comparison import Result
from tests.benchmarks.document import MEAN, MODELS, SIDE_BY_SIDE, geometric_mean, ratios, side_by_side, table, with_section
from tests.benchmarks.rows import rows
from tests.benchmarks.table import heading, section

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def body(*lines: tuple[str, float, float]) -> str:
    return "measured\n\n" + table(
        ["", "ratio, 1 thread", "ratio, 2 threads"], [[name, f"{a:.2f}", f"{b:.2f}"] for name, a, b in lines]
    )


DOCUMENT = f"# Performance\n\nHow.\n\n## Zeta\n\n{body(('gemm', 1, 2), (MEAN, 1, 2))}\n## Alpha\n\n{body(('gemm', 3, 4), (MEAN, 3, 4))}"


def headings(document: str) -> list[str]:
    return re.findall(r"^## (.*)$", document, re.MULTILINE)


def test_a_new_section_leaves_the_others() -> None:
    made = with_section(DOCUMENT, "Middle", body(("gemm", 5, 6), ("conv", 7, 8), (MEAN, 6, 7)))
    assert made.startswith("# Performance\n\nHow.\n\n## ")
    assert headings(made) == [SIDE_BY_SIDE, "Alpha", "Middle", "Zeta"]
    assert "| gemm | 3.00, 4.00 | 5.00, 6.00 | 1.00, 2.00 |\n| conv |  | 7.00, 8.00 |  |\n| geometric mean |" in made
    for kept in DOCUMENT.split("## ")[1:]:
        assert kept.strip() in made


def test_the_section_of_the_same_cpu_is_replaced() -> None:
    made = with_section(DOCUMENT, "Alpha", body(("gemm", 9, 9), (MEAN, 9, 9)))
    assert headings(made) == [SIDE_BY_SIDE, "Alpha", "Zeta"]
    assert "3.00" not in made
    assert made.count("| gemm |") == 3


def test_models_in_use_have_a_section_of_their_own() -> None:
    made = with_section(DOCUMENT, heading("Alpha", (), models=True), body(("ocr", 5, 6), (MEAN, 5, 6)))
    assert headings(made) == [SIDE_BY_SIDE, "Alpha", "Alpha; models in use", "Zeta"]
    assert made.count("| ocr |") == 1


def test_writing_twice_is_writing_once() -> None:
    once = with_section(DOCUMENT, "Beta", body(("gemm", 1, 1), (MEAN, 1, 1)))
    assert with_section(once, "Beta", body(("gemm", 1, 1), (MEAN, 1, 1))) == once


def test_ratios_are_read_out_of_the_table_that_is_written() -> None:
    found = {
        "gemm": [Result("gemm, 1", 1e-3, 2e-3, 2e-3), Result("gemm, 2", 1e-3, 3e-3, 3e-3)],
        "conv": [Result("conv, 1", 1e-3, 8e-3, 8e-3), Result("conv, 2", 1e-3, 3e-3, 2e-3)],
    }
    text = section(found, "onnxruntime", "ort-lite 1", "2026-01-02", 3)
    assert text.startswith("2026-01-02, ort-lite 1, 3 seconds a row")
    assert "In 1 of 4 measurements onnxruntime was off from itself by more than 3%." in text
    assert ratios(text) == {"gemm": (2.0, 3.0), "conv": (8.0, 3.0), MEAN: (4.0, 3.0)}
    assert "| gemm | 1 | 2 | 2.00 | 1.00 | 1 | 3 | 3.00 | 1.00 |" in text


def test_times_of_different_results_are_no_ratio() -> None:
    wrong = Result("gemm, 1", 1.0, 1.0, 1.0, differences=("'y' is off",))
    found = {
        "gemm": [wrong, Result("gemm, 2", 1.0, 1.0, 1.0)],
        "conv": [Result("conv, 1", 1.0, 4.0, 4.0), Result("conv, 2", 1.0, 2.0, 2.0)],
    }
    text = section(found, "openvino", "", "", 1)
    assert "| gemm | 1000 | 1000 | results differ | 1.00 | 1000 |" in text
    assert ratios(text) == {"conv": (4.0, 2.0), MEAN: (4.0, 2.0)}


def test_a_cpu_is_told_by_its_vectors_too() -> None:
    assert heading("Xeon", ("avx2", "fma")) == "Xeon: avx2, fma"
    assert heading("M1", ()) == "M1"
    assert heading("M1", (), "openvino") == "M1; against openvino"
    assert heading("M1", (), models=True) == "M1; models in use"


def test_the_page_is_what_its_sections_make_of_it() -> None:
    """Its rows are those that are measured, in their order, and its means are the means of its rows."""
    page = PAGE.read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:])
    found = {name: ratios(text) for name, text in parts.items() if name != SIDE_BY_SIDE and not name.endswith(MODELS)}
    assert parts[SIDE_BY_SIDE].strip() == side_by_side(found).strip()
    names = [row.name for row in rows()]
    for section_name, of_cpu in found.items():
        own = [name for name in names if name in of_cpu or "; against " not in section_name]
        assert list(of_cpu) == [*own, MEAN]
        for k, mean in enumerate(of_cpu[MEAN]):
            assert geometric_mean(of_cpu[name][k] for name in own) == pytest.approx(mean, abs=0.01)


@pytest.mark.slow
def test_rows_are_the_same_each_time() -> None:
    first, second = (list(rows()) for _ in range(2))
    assert len(first) == 23
    for one, other in zip(first, second, strict=True):
        assert (one.name, one.model) == (other.name, other.model)
        assert all((one.feeds[name] == other.feeds[name]).all() for name in one.feeds | other.feeds)
