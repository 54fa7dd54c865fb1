"""Triage of findings: those with one cause are one group, the smallest case first."""

import re
from collections.abc import Iterable, Mapping, Sequence

from ort_lite.record import Record
from ort_lite.testing.kit import Finding

_DIFFERENCE = re.compile(
    r"output \d+ \((?P<dtype>\w+)\) differs: .*?(?:\(accepted with rtol and atol of (?P<tolerance>[\d.e+-]+)\))?$"
)
_OTHER_TYPE = re.compile(r"output \d+ is (?P<got>\w+)\[.*?\], expected (?P<expected>\w+)\[")
_CLAIMS = re.compile(r"^it claims .*?, and then: ")
_RUN = re.compile(r"^run \d+: ")
_ALSO = re.compile(r" \(and so does .*\)$")
_DETAIL = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?")
"""Parts of a message that differ between cases of one cause: names, shapes, indices, numbers."""

_PRECISIONS = ((2.0**-19, "float32"), (2.0**-9, "float16 or TF32"), (2.0**-4, "bfloat16"))
"""The greatest differences, relative to 1 + |expected|, with which results of a few operators have a precision."""


class Cause(Record):
    """Findings that have one cause, as far as their texts tell, the smallest case first."""

    text: str
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        first, count = self.findings[0], len(self.findings)
        if count == 1:
            return str(first)
        lines = [f"{self.text} ({count} findings)", f"    smallest case: {first}"]
        checks = dict.fromkeys(finding.check for finding in self.findings)
        return "\n".join([*lines, *([f"    checks: {', '.join(checks)}"] if len(checks) > 1 else [])])


def triage(findings: Mapping[str, Sequence[Finding]]) -> tuple[Cause, ...]:
    """Group the findings of all checks by their cause, the most frequent one first. O(findings)."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for several in findings.values():
        for finding in several:
            groups.setdefault(_key(finding), []).append(finding)
    causes = [_cause(key, found) for key, found in groups.items()]
    return tuple(sorted(causes, key=lambda cause: -len(cause.findings)))


def message(finding: Finding) -> str:
    """Return a finding's text without what introduces it and without other cases."""
    text = _ALSO.sub("", finding.text)
    return _RUN.sub("", _CLAIMS.sub("", text))


def _key(finding: Finding) -> tuple[str, str]:
    """Return the kind of cause, and what tells causes of this kind apart."""
    text = message(finding)
    if (found := _DIFFERENCE.search(text)) is not None:
        tolerance = found["tolerance"]
        if tolerance is not None and float(tolerance) <= _PRECISIONS[-1][0]:
            return "precision", ""
        return ("values", _operator(finding)) if tolerance is not None else ("special", _operator(finding))
    if (found := _OTHER_TYPE.search(text)) is not None:
        same = found["got"] == found["expected"]
        return ("shape", _operator(finding)) if same else ("type", f"{found['got']} instead of {found['expected']}")
    return "message", _DETAIL.sub("…", text.partition("\n")[0])


def _operator(finding: Finding) -> str:
    """Return the operators of a generated model, or the name of a node test without its details."""
    return re.split(r"[ (,]", finding.case, maxsplit=1)[0]


def _cause(key: tuple[str, str], found: list[Finding]) -> Cause:
    ordered = tuple(sorted(found, key=lambda finding: (finding.size, len(finding.text))))
    kind, what = key
    match kind:
        case "precision":
            return Cause(_precision(ordered), ordered)
        case "values":
            return Cause(f"{what} computes other values than ONNX asks for", ordered)
        case "special":
            return Cause(f"{what} differs at NaN, infinities or elements that are no floating-point numbers", ordered)
        case "type":
            return Cause(f"outputs have another element type: {what}{_types(ordered)}", ordered)
        case "shape":
            return Cause(f"{what} has outputs of other shapes", ordered)
        case _:
            return Cause(message(ordered[0]).partition("\n")[0], ordered)


def _precision(found: Iterable[Finding]) -> str:
    """Describe findings that one tolerance explains."""
    matches = [match for one in found if (match := _DIFFERENCE.search(message(one))) is not None]
    needed = max(float(match["tolerance"]) for match in matches)
    name = next(name for limit, name in _PRECISIONS if needed <= limit)
    dtypes = dict.fromkeys(match["dtype"] for match in matches)
    of = f" of {', '.join(dtypes)}" if len(dtypes) == 1 else ""
    rounded = f"{needed * 1.05:.1e}"
    return f"Results{of} have the precision of {name}: --rtol {rounded} --atol {rounded} accepts all of them"


def _types(found: Sequence[Finding]) -> str:
    checks = {finding.check for finding in found}
    return "" if len(checks) > 1 else f", in the check {checks.pop()}"
