"""The conformance kit: finds each defect of a deliberately bad provider, and nothing in a good one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.testing import CHECKS, check_provider
from tests.testing.bad_provider import DEFECTS, OPERATORS, BadProvider, operators_of

pytestmark = pytest.mark.slow


def test_a_good_provider_passes_every_check() -> None:
    report = check_provider(BadProvider, operators=OPERATORS)
    assert report.passed, str(report)
    assert report.score == 1 and report.claimed > 10
    assert set(report.findings) == set(CHECKS)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: str) -> None:
    check = DEFECTS[defect]
    report = check_provider(BadProvider, only=[check], operators=tuple(operators_of(defect)), defect=defect)
    assert report.findings[check], f"{check} did not find that the provider {defect}"
    assert not report.passed and report.score == 0


def test_a_report_is_plain_data() -> None:
    report = check_provider(BadProvider, only=["claims"], operators=["Abs"], defect="is a little wrong")
    told = json.loads(report.to_json())
    assert told["provider"] == "BadExecutionProvider" and told["score"] == 0
    assert told["checks"]["claims"][0]["case"] == "abs"
    assert "claims: abs: output 0 differs" in str(report)


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no check is called 'speed'"):
        check_provider(BadProvider, only=["speed"])


def test_the_pytest_plugin_has_a_test_for_each_check_and_writes_a_score(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    root = Path(__file__).parents[2]
    options = json.dumps({"defect": "is a little wrong"})
    arguments = ["-q", "-p", "ort_lite.testing.plugin", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    arguments += ["-c", str(tmp_path / "pytest.ini"), "--provider", "tests.testing.bad_provider:BadProvider"]
    arguments += ["--provider-options", options, "--operators", "Abs,Neg", "--score", str(score)]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    paths = [str(root), str(root / "providers"), str(root / "transforms")]
    code = f"import sys; sys.path[:0] = {paths!r}; import pytest; sys.exit(pytest.main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(score.read_text())
    assert set(told["checks"]) == set(CHECKS) and 0 < told["score"] < 1
    assert told["checks"]["claims"]
    assert "BadExecutionProvider" in told["provider"]
