"""`ort-lite verify MODEL.onnx`: compare each partition with the CPU provider on the same inputs, or the outputs with another
runtime.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.errors import InvalidArgument, VerificationError, format_error
from ort_lite.log.progress_line import ProgressLine
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.benchmark.rivals import rival
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text
from ort_lite.tools.verify.compare import DEFAULTS, TensorReport, Tolerance, compare_all
from ort_lite.tools.verify.settings import Verification
from ort_lite.tools.verify.verification_report import VerificationReport
from ort_lite.tools.verify.verify import keeping

COLUMNS = ("output", "type", "shape", "off", "greatest difference", "relative", "found")


def main(arguments: Namespace) -> int:
    """Run `ort-lite verify`. Returns FINDINGS if an output differs. Raises VerificationError if a partition differs."""
    if arguments.against == "CPUExecutionProvider":
        _partitions(arguments)
        return 0
    return _outputs(arguments)


def _partitions(arguments: Namespace) -> None:
    options = keeping(session_arguments.options(arguments))
    with session_arguments.session(arguments, arguments.model, options) as session:
        feeds = feeds_of(arguments, session.get_inputs())
        try:
            with ProgressLine("comparing the partitions"):
                session.run(None, feeds, verify=Verification(arguments.rtol, arguments.atol))
        except VerificationError:
            _show_report(session.verification, arguments.json)
            raise
        _show_report(session.verification, arguments.json)


def _show_report(report: VerificationReport | None, as_json: bool) -> None:
    if report is not None and as_json:
        print_json("verify", {"against": "CPUExecutionProvider", **report.as_dict()})
    elif report is not None:
        print_text(report)


def _outputs(arguments: Namespace) -> int:
    other = rival(arguments.against)
    with session_arguments.session(arguments, arguments.model) as session:
        feeds = feeds_of(arguments, session.get_inputs())
        try:
            with ProgressLine(f"running {other.name}"):
                expected = other.open(arguments.model, arguments.threads, feeds)()
        except Exception as error:  # whatever another runtime raises
            raise InvalidArgument(
                f"{other.name} does not run {arguments.model}: {format_error(error).splitlines()[0]}"
            ) from error
        got = session.run(None, feeds)
        names = [arg.name for arg in session.get_outputs()]
    reports = compare_all(names, got, expected, _tolerances(arguments))
    all_ok = all(report.ok for report in reports)
    if arguments.json:
        outputs = [report.as_dict() for report in reports]
        print_json("verify", {"against": f"{other.name} {other.version}", "ok": all_ok, "outputs": outputs})
    else:
        _show(reports, f"{other.name} {other.version}")
    return ExitStatus.DONE if all_ok else ExitStatus.FINDINGS


def _tolerances(arguments: Namespace) -> Any:
    """Return the tolerances by element type. --rtol and --atol apply to all."""

    def tolerance(dtype: str) -> Tolerance:
        found = DEFAULTS.get(dtype, Tolerance())
        given: Mapping[str, float | None] = {"rtol": arguments.rtol, "atol": arguments.atol}
        return found.replace(**{name: value for name, value in given.items() if value is not None})

    return tolerance


def _show(reports: Sequence[TensorReport], name: str) -> None:
    print_table(COLUMNS, map(_row, reports), COLUMNS[3:6])
    off = sum(not report.ok for report in reports)
    print_text(f"{off} of {len(reports)} outputs are off from {name}" if off else f"as {name} has it: {len(reports)} outputs")


def _row(report: TensorReport) -> list[str]:
    said = report.mismatch.replace("the CPU", "the other") or (
        "off" if report.wrong else "equal" if report.index is None else "near"
    )
    count, difference = f"{report.wrong} of {report.elements}", f"{report.greatest_difference:.3g}"
    shape = str(list(report.shape))
    return [report.name, str(report.type), shape, count, difference, f"{report.greatest_relative:.3g}", said]
