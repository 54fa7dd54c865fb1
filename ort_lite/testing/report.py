"""Runs the checks and reports their findings as text, JSON and a score."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ort_lite.errors import InvalidArgument
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.testing import checks
from ort_lite.testing.hosts import Remark, find_host
from ort_lite.testing.kit import SHAPES, Finding, GeneratedModels, Kit
from ort_lite.testing.speed import Speed, speeds, table
from ort_lite.testing.triage import Cause, triage

Check = Callable[[Kit], list[Finding]]
Progress = Callable[[str, int, int], Any]

CHECKS: Mapping[str, Check] = MappingProxyType({check.__name__: check for check in checks.ALL})
"""By name, in the order in which they run."""


class Report(Record):
    """The findings of each check. `claimed` and `generated` count the node tests and generated models of which the provider claims
    a node. `host` is the runtime of the sessions, "" for ort-lite. `absent` lists the checks without a place there, with the reason.
    """

    provider: str
    claimed: int
    generated: int
    findings: Mapping[str, tuple[Finding, ...]]
    speed: tuple[Speed, ...] = ()
    host: str = ""
    absent: Mapping[str, str] = MappingProxyType({})
    remarks: tuple[Remark, ...] = ()

    @property
    def title(self) -> str:
        """Return the provider's name, and the host if it is another than ort-lite."""
        return f"{self.provider} in {self.host}" if self.host else self.provider

    @property
    def absences(self) -> dict[str, list[str]]:
        """Return the checks that have no place in the host, by reason."""
        found: dict[str, list[str]] = {}
        for name, reason in self.absent.items():
            found.setdefault(reason, []).append(name)
        return found

    @property
    def passed(self) -> bool:
        """Return True if no check has findings."""
        return not any(self.findings.values())

    @property
    def score(self) -> float:
        """Return the share of checks without findings, 0 to 1."""
        return sum(not found for found in self.findings.values()) / len(self.findings) if self.findings else 1.0

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings grouped by cause, the most frequent one first."""
        return triage(self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        found = {name: [_plain(finding) for finding in several] for name, several in self.findings.items()}
        speed = {one.subject: {"seconds": one.seconds, "cpu": one.cpu} for one in self.speed}
        head = {"provider": self.provider, "host": self.host, "claimed": self.claimed, "generated": self.generated}
        causes = [{"cause": cause.text, "findings": [_plain(one) for one in cause.findings]} for cause in self.causes]
        remarks = [{"text": remark.text, "models": remark.models, "reasons": dict(remark.reasons)} for remark in self.remarks]
        rest = {"absent": dict(self.absent), "remarks": remarks, "speed": speed}
        return {**head, "score": self.score, "causes": causes, "checks": found, **rest}

    def to_json(self, indent: int | None = 2) -> str:
        """Return the report as JSON."""
        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        claimed = f"{self.claimed} node tests and {self.generated} generated models claimed"
        lines = [f"{self.title}: {self.score:.0%} of {len(self.findings)} checks passed; {claimed}"]
        lines += [f"not in {self.host}: {', '.join(names)}: {reason}" for reason, names in self.absences.items()]
        lines += map(str, self.remarks)
        failed = [name for name, several in self.findings.items() if several]
        lines += [f"failed: {', '.join(failed)}"] if failed else []
        lines += [f"{number}. {cause}" for number, cause in enumerate(self.causes, 1)]
        return "\n".join([*lines, *(table(self.speed) if self.speed else ())])

    def details(self) -> str:
        """Return each finding, one line or two for each."""
        return "\n".join(str(finding) for several in self.findings.values() for finding in several)


def _plain(finding: Finding) -> dict[str, str]:
    return {"case": finding.case, "text": finding.text, "reproduce": finding.reproduce}


def check_provider(
    provider: type[ExecutionProvider] | Callable[..., ExecutionProvider],
    *,
    only: Sequence[str] | None = None,
    operators: Iterable[str] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    case: str = "",
    speed: bool = False,
    save: str | Path | None = None,
    progress: Progress | None = None,
    host: str = "",
    shapes: int = SHAPES,
    **options: Any,
) -> Report:
    """Run every check, or those in `only`, on `provider(**options)`. It takes minutes if the provider claims most operators.

    `operators` limits the node tests to those of these operators. `rtol` and `atol` allow larger differences than a node test does
    (see Kit). `case` limits the check to the generated model of that name, `speed` adds times, and `save` is a folder for generated
    models that fail. `progress` is called with the name of each check before it runs, the number of checks that are done, and the
    number of all. With `host="onnxruntime"`, sessions are those of onnxruntime, for which ort-lite-ep must be installed.
    `shapes` is the number of shapes of the check `caches`. Provider options with one of these names need a `functools.partial`.
    Raises InvalidArgument for an unknown check, case or host. A check that raises is a finding.
    """
    for name in only or ():
        if name not in CHECKS:
            raise InvalidArgument(f"no check is called {name!r}; there are {', '.join(CHECKS)}")
    make, models = partial(provider, **options), GeneratedModels(case)
    kit = Kit(make, operators, rtol=rtol, atol=atol, models=models, host=find_host(host), shapes=shapes)
    if case and not kit.generator_cases:
        raise InvalidArgument(f"no generated model of which it takes a node is called {case!r}")
    chosen = only if only is not None else {one.kind for one in kit.generator_cases} if case else CHECKS
    planned = {name: check for name, check in CHECKS.items() if name in chosen and name not in kit.host.absent}
    findings: dict[str, tuple[Finding, ...]] = {}
    for done, (name, check) in enumerate(planned.items()):
        if progress is not None:
            progress(name, done, len(planned))
        findings[name] = tuple(run(check, kit))
    if save is not None:
        _save(kit, findings, Path(save))
    return report_of(kit, findings, {name: why for name, why in kit.host.absent.items() if name in chosen}, speed)


def _save(kit: Kit, findings: Mapping[str, Sequence[Finding]], folder: Path) -> None:
    """Write each generated model that failed as CHECK-N.onnx, and the inputs of its runs as CHECK-N.run-M.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = {case.name: case for case in kit.generator_cases}
    for check, several in findings.items():
        for number, case in enumerate(cases[finding.case] for finding in several if finding.case in cases):
            path = folder / f"{check}-{number}"
            path.with_name(f"{path.name}.onnx").write_bytes(case.model.SerializeToString())
            for run, feed in enumerate(case.feeds):
                arrays: dict[str, Any] = dict(feed)
                np.savez(path.with_name(f"{path.name}.run-{run}.npz"), **arrays)


def report_of(kit: Kit, findings: Mapping[str, tuple[Finding, ...]], absent: Mapping[str, str], speed: bool = False) -> Report:
    """Return the report of the checks; for one generated model alone, no node test is counted.

    What the provider raises meanwhile is a finding of the check "report".
    """
    cls = getattr(kit.make, "func", kit.make)
    bare = Report(getattr(cls, "__name__", str(cls)), 0, 0, findings, host=kit.host.label, absent=absent)
    try:
        name, claimed = kit.make().name, 0 if kit.models.case else len(kit.positive_cases)
        whole = bare.replace(provider=kit.host.aliases.get(name, name), claimed=claimed, generated=len(kit.generator_cases))
        return whole.replace(speed=speeds(kit) if speed else (), remarks=kit.remarks())
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the provider lets out
        found = Finding("report", "", f"{type(error).__name__}: {error}")
        return bare.replace(findings={**findings, "report": (found,)})


def run(check: Check, kit: Kit) -> list[Finding]:
    """Run a check and return its findings. An exception that the provider raises, or an exit, is a finding too."""
    try:
        return check(kit)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the provider lets out
        return [Finding(getattr(check, "__name__", "check"), "", f"{type(error).__name__}: {error}")]


def load_class(text: str) -> Any:
    """Return the class named "my_package.module:MyExecutionProvider". Raises InvalidArgument."""
    module, colon, attribute = text.partition(":")
    if not colon:
        raise InvalidArgument(f"{text!r}: expected MODULE:CLASS")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"{text!r}: {error}") from error
