"""The conformance kit: checks of an execution provider against what every provider must keep.

    from ort_lite.testing import check_provider

    report = check_provider(MyExecutionProvider, device_id=0)
    assert report.passed, report

From the shell, it runs one test for each check, and writes a score as JSON:

    pytest -p ort_lite.testing.plugin --provider my_package:MyExecutionProvider --score score.json

Each check is a function of `ort_lite.testing.checks`, whose docstring says what it finds. The kit needs the package onnx, whose
node tests are the models that the provider runs.
"""

from ort_lite.testing.kit import Deviation, Finding, GeneratedModels, Kit
from ort_lite.testing.report import CHECKS, Report, check_provider

__all__ = ["CHECKS", "Deviation", "Finding", "GeneratedModels", "Kit", "Report", "check_provider"]
