"""The conformance kit in other runtimes: hosts of plugins, checks without a place there, and models that a host refuses."""

from collections.abc import Mapping
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest

from ort_lite.__main__ import main
from ort_lite.errors import InvalidArgument, ProviderError
from ort_lite.plugins import plugins
from ort_lite.provider import ExecutionProvider
from ort_lite.testing import check_provider
from ort_lite.testing.documents import html, junit
from ort_lite.testing.hosts import Host, HostRefusal, Remark, find_host
from tests.testing.bad_provider import BadProvider
from tests.tools.cli.output import parse

pytestmark = pytest.mark.slow
BAD = "tests.testing.bad_provider:BadProvider"


class Elsewhere(Host):
    """ort-lite under another name, without negation."""

    name: ClassVar[str] = "elsewhere"
    label = "elsewhere 2.0"
    absent: ClassVar[Mapping[str, str]] = {"contract": "no session", "settings": "no session", "saved": "no files"}
    aliases: ClassVar[Mapping[str, str]] = {"BadExecutionProvider": "Worse"}

    def session(self, model: Any, provider: ExecutionProvider) -> Any:
        if b"Neg" in model:
            raise HostRefusal("without Neg")
        return super().session(model, provider)

    def remarks(self) -> tuple[Remark, ...]:
        return (Remark("models without the provider", {"too small": 2, "too large": 1}),)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "host", {"elsewhere": Elsewhere, "wrong": dict}.__getitem__)


def test_a_report_lists_what_has_no_place_and_what_was_refused() -> None:
    report = check_provider(BadProvider, operators=["Abs", "Neg"], only=["contract", "saved", "claims"], host="elsewhere")
    assert str(report).splitlines()[1:] == [
        "not in elsewhere 2.0: contract: no session",
        "not in elsewhere 2.0: saved: no files",
        "models that elsewhere 2.0 refuses: 2 (2 without Neg)",
        "models without the provider: 3 (2 too small, 1 too large)",
    ]
    assert report.title == "Worse in elsewhere 2.0" and report.passed and list(report.findings) == ["claims"]
    assert report.remarks[0] == Remark("models that elsewhere 2.0 refuses", {"without Neg": 2})


def test_checks_of_one_reason_share_a_line() -> None:
    report = check_provider(BadProvider, operators=["Abs"], only=["contract", "settings"], host="elsewhere")
    assert "not in elsewhere 2.0: contract, settings: no session" in str(report).splitlines()
    assert report.score == 1


def test_refused_models_are_no_findings_of_any_check() -> None:
    report = check_provider(BadProvider, operators=["Neg"], host="elsewhere")
    assert report.passed, str(report)
    assert report.remarks[0].models > 10


def test_a_finding_is_shown_again_in_the_same_host() -> None:
    report = check_provider(BadProvider, operators=["Abs"], only=["attributes"], host="elsewhere", defect="is a little wrong")
    assert " --in elsewhere " in report.findings["attributes"][0].reproduce


def test_all_forms_of_a_report_name_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    report = check_provider(BadProvider, operators=["Abs"], only=["contract", "claims"], host="elsewhere")
    page, suite = html(report), ElementTree.fromstring(junit(report))
    assert "Worse in elsewhere 2.0" in page and "contract: no session" in page and "2 too small" in page
    assert (suite.get("name"), suite.get("tests"), suite.get("skipped")) == ("Worse in elsewhere 2.0", "2", "1")
    [skipped] = suite.iter("skipped")
    assert skipped.get("message") == "not in elsewhere 2.0: no session"
    assert main(["check-provider", BAD, "--in", "elsewhere", "--operators", "Abs", "--only", "contract,claims", "--json"]) == 0
    told = parse(capsys.readouterr().out)
    assert told["host"] == "elsewhere 2.0" and told["absent"] == {"contract": "no session"}
    assert told["remarks"] == [
        {"text": "models without the provider", "models": 3, "reasons": {"too small": 2, "too large": 1}}
    ]


def test_a_report_of_ort_lite_names_no_host() -> None:
    report = check_provider(BadProvider, operators=["Abs"], only=["claims"])
    assert report.title == "BadExecutionProvider" and not report.absent and not report.remarks


def test_something_else_than_a_host_is_refused() -> None:
    with pytest.raises(ProviderError, match="expected a class derived from"):
        find_host("wrong")


def test_a_host_that_no_plugin_has_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "host", plugins._process.host)
    with pytest.raises(InvalidArgument, match="install the packages onnxruntime and ort-lite-ep"):
        find_host("nowhere")
