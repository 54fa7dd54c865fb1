"""The conformance kit: what every execution provider must keep, checked against a provider that its author points it at.

    from ort_lite.testing import check_provider

    report = check_provider(MyExecutionProvider, device_id=0)
    assert report.passed, report

or from the shell, one test for each check, with a score as JSON:

    pytest -p ort_lite.testing.plugin --provider my_package:MyExecutionProvider --score score.json

Every check is a function of `ort_lite.testing.checks`; its docstring says what it finds. It needs the package onnx, whose node
tests are the models that the provider is tried on.
"""

from ort_lite.testing.kit import Deviation, Finding, GeneratedModels, Kit
from ort_lite.testing.report import CHECKS, Report, check_provider

__all__ = ["CHECKS", "Deviation", "Finding", "GeneratedModels", "Kit", "Report", "check_provider"]
