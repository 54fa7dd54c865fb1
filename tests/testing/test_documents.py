"""The report as a page and as JUnit's XML, the speed table, and the command that writes them."""

import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from ort_lite import InferenceSession
from ort_lite.__main__ import main
from ort_lite.testing import Finding, Report, check_provider
from ort_lite.testing.documents import html, junit
from ort_lite.testing.speed import Speed
from tests.testing.bad_provider import BadProvider
from tests.tools.cli.output import parse

FOUND = Finding("attributes", "Abs(3x4) <odd>", "got 1 & expected \x00 2", "ort-lite check-provider 'a & b'")
REPORT = Report("MyProvider", 5, 7, {"contract": (), "attributes": (FOUND, FOUND)}, (Speed("Abs", 2e-5, 1e-5),))
BAD = "tests.testing.bad_provider:BadProvider"


class Texts(HTMLParser):
    """The texts of a page; everything that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_page_has_everything_and_loads_nothing() -> None:
    page = html(REPORT)
    read = Texts(page)
    assert read.open == []
    text = "".join(read.texts)
    assert "1 of 2 checks passed" in text and "got 1 & expected" in text and "check-provider 'a & b'" in text
    assert "2.00" in text, "the ratio"
    assert not re.search(r"(src|href)=", page)


def test_junit_has_a_case_for_each_check() -> None:
    suite = ElementTree.fromstring(junit(REPORT))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    passed, failed = suite
    assert passed.get("name") == "contract" and len(passed) == 0
    assert failed.get("name") == "attributes"
    assert failed[0].text is not None and "Abs(3x4) <odd>" in failed[0].text and "\x00" not in failed[0].text


def test_a_report_ends_with_the_speed() -> None:
    lines = str(REPORT).splitlines()
    assert lines[0] == "MyProvider: 50% of 2 checks passed; 5 node tests and 7 generated models claimed"
    assert [line.split() for line in lines[-2:]] == [["speed", "µs", "CPU", "µs", "ratio"], ["Abs", "20", "10", "2.00"]]


def test_speed_is_told_of_each_operator_and_of_all() -> None:
    report = check_provider(BadProvider, operators=["Abs", "Neg"], only=["contract"], speed=True)
    assert [one.subject for one in report.speed] == ["Abs", "Neg", "all"]
    assert report.speed[-1].seconds == sum(one.seconds for one in report.speed[:-1]) > 0


def test_the_smallest_failure_is_shown_with_a_line_that_shows_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = check_provider(BadProvider, operators=["Abs"], only=["attributes"], defect="is a little wrong")
    (finding,) = report.findings["attributes"]
    assert finding.case.startswith("Abs(1), opset ")
    assert "output 0 (float32) differs: at (0,): got" in finding.text and "and so does" in finding.text
    assert finding.reproduce.startswith(f"ort-lite check-provider {BAD} --options ")
    words = shlex.split(finding.reproduce)
    assert words[-6:] == ["--operators", "Abs", "--only", "attributes", "--case", finding.case]
    assert main([*words[1:], "--save", str(tmp_path / "failures")]) == 1
    assert f"attributes: {finding.case}: output 0 (float32) differs" in capsys.readouterr().out
    session = InferenceSession(tmp_path / "failures" / "attributes-0.onnx", providers=["CPUExecutionProvider"])
    with np.load(tmp_path / "failures" / "attributes-0.run-0.npz") as feed:
        assert session.run(None, dict(feed))[0].shape == (1,)


def test_the_command_writes_all_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--html", str(tmp_path / "report.html"), "--junit", str(tmp_path / "report.xml")]
    assert main(["check-provider", BAD, "--operators", "Abs", "--only", "contract,numbers", "--json", *files]) == 0
    told = parse(capsys.readouterr().out)
    assert list(told["checks"]) == ["contract", "numbers"] and told["score"] == 1
    assert Texts((tmp_path / "report.html").read_text(encoding="utf-8")).texts
    assert ElementTree.parse(tmp_path / "report.xml").getroot().get("failures") == "0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([BAD, "--options", "1"], "expected a JSON object"),
        ([BAD, "--options", "{"], "--options '{'"),
        ([BAD, "--only", "beauty"], "no check is called 'beauty'"),
        (
            [BAD, "--operators", "Abs", "--case", "Nothing()"],
            "no generated model of which it takes a node is called 'Nothing()'",
        ),
        (["NobodysExecutionProvider"], "no execution provider is called"),
    ],
)
def test_what_the_command_cannot_do_it_says(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-provider", *arguments]) == 2
    assert message in capsys.readouterr().err
