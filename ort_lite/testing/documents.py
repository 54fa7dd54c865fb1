"""Reports as files: HTML for people, JUnit XML for build servers."""

from html import escape
from xml.etree.ElementTree import Element, SubElement, tostring

from ort_lite.testing.kit import Finding
from ort_lite.testing.report import Report

_STYLE = """body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse } td, th { padding: .2em .8em .2em 0; text-align: left; vertical-align: top }
td.number { text-align: right } pre { background: #f4f4f4; padding: .5em; white-space: pre-wrap } .failed { color: #a00 }"""


def html(report: Report) -> str:
    """Return the report as one self-contained page."""
    checks = "".join(_check(name, found) for name, found in report.findings.items())
    passed = sum(not found for found in report.findings.values())
    claimed = f"{report.claimed} node tests and {report.generated} generated models claimed"
    head = f"{passed} of {len(report.findings)} checks passed; {claimed}"
    title = escape(report.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>\n'
        f"<body><h1>{title}</h1><p>{head}</p>\n<h2>Checks</h2>\n{checks}{_absences(report)}{_speeds(report)}</body></html>\n"
    )


def _check(name: str, found: tuple[Finding, ...]) -> str:
    if not found:
        return f"<p>{escape(name)}: passed</p>\n"
    told = "".join(f"<li>{_finding(one)}</li>\n" for one in found)
    return f'<p class="failed">{escape(name)}: {len(found)} found</p>\n<ul>\n{told}</ul>\n'


def _finding(one: Finding) -> str:
    line = f"<pre>{escape(one.reproduce)}</pre>" if one.reproduce else ""
    return f"<b>{escape(one.case)}</b> {escape(one.text)}{line}"


def _absences(report: Report) -> str:
    """Return the checks without a place in the host, and remarks, as lists."""
    lines = [f"{', '.join(names)}: {reason}" for reason, names in report.absences.items()]
    lists = ((f"Not in {report.host}", lines), ("Remarks", list(map(str, report.remarks))))
    return "".join(
        f"<h2>{escape(title)}</h2>\n<ul>\n{''.join(f'<li>{escape(text)}</li>' for text in texts)}\n</ul>\n"
        for title, texts in lists
        if texts
    )


def _speeds(report: Report) -> str:
    if not report.speed:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.subject)}</td>"
        + "".join(
            f'<td class="number">{x}</td>' for x in (f"{one.seconds * 1e6:.0f}", f"{one.cpu * 1e6:.0f}", f"{one.ratio:.2f}")
        )
        + "</tr>\n"
        for one in report.speed
    )
    head = "<tr><th>operator</th><th>µs</th><th>CPU provider, µs</th><th>ratio</th></tr>\n"
    return f"<h2>Speed</h2>\n<table>\n{head}{rows}</table>\n"


def junit(report: Report) -> str:
    """Return a JUnit test suite with one test per check. All findings of a check are one failure.

    A check without a place in the host is a skipped test.
    """
    failed, absent = sum(map(bool, report.findings.values())), report.absent
    counts = {"tests": len(report.findings) + len(absent), "failures": failed, "skipped": len(absent), "errors": 0}
    suite = Element("testsuite", {"name": report.title, **{name: str(count) for name, count in counts.items()}})
    for name, found in report.findings.items():
        case = SubElement(suite, "testcase", classname=report.title, name=name)
        if found:
            message = found[0].text if len(found) == 1 else f"{len(found)} found, the first: {found[0].text}"
            SubElement(case, "failure", message=_plain(message)).text = _plain("\n".join(map(str, found)))
    for name, reason in absent.items():
        case = SubElement(suite, "testcase", classname=report.title, name=name)
        SubElement(case, "skipped", message=_plain(f"not in {report.host}: {reason}"))
    return tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Remove characters that XML cannot represent."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)
