"""Runs the checks and says what they found: as text, as JSON, as a score."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.provider.provider import ExecutionProvider
from ort_lite.record import Record
from ort_lite.testing import checks
from ort_lite.testing.kit import Finding, Kit

Check = Callable[[Kit], list[Finding]]

CHECKS: Mapping[str, Check] = MappingProxyType({check.__name__: check for check in checks.ALL})
"""By name, in the order in which they run."""


class Report(Record):
    """What each check found; `claimed` counts the node tests of ONNX of which the provider takes a node."""

    provider: str
    claimed: int
    findings: Mapping[str, tuple[Finding, ...]]

    @property
    def passed(self) -> bool:
        return not any(self.findings.values())

    @property
    def score(self) -> float:
        """The share of checks that found nothing, 0 to 1."""
        return sum(not found for found in self.findings.values()) / max(len(self.findings), 1)

    def as_dict(self) -> dict[str, Any]:
        found = {name: [{"case": f.case, "text": f.text} for f in several] for name, several in self.findings.items()}
        return {"provider": self.provider, "claimed": self.claimed, "score": self.score, "checks": found}

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        lines = [f"{self.provider}: {self.score:.0%} of {len(self.findings)} checks passed; {self.claimed} node tests claimed"]
        lines += [str(finding) for several in self.findings.values() for finding in several]
        return "\n".join(lines)


def check_provider(
    provider: type[ExecutionProvider] | Callable[..., ExecutionProvider],
    *,
    only: Sequence[str] | None = None,
    operators: Iterable[str] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    **options: Any,
) -> Report:
    """Every check, or those in `only`, on `provider(**options)`; minutes for a provider that takes most operators.

    `operators` limits the node tests to those of these operators; `rtol` and `atol` allow larger differences than a node test
    does (see Kit). Options of the provider that have such a name go into a `functools.partial`. Raises InvalidArgument for a
    check that there is not.
    """
    for name in only or ():
        if name not in CHECKS:
            raise InvalidArgument(f"no check is called {name!r}; there are {', '.join(CHECKS)}")
    kit = Kit(partial(provider, **options), operators, rtol=rtol, atol=atol)
    chosen = CHECKS if only is None else {name: CHECKS[name] for name in only}
    findings = {name: tuple(run(check, kit)) for name, check in chosen.items()}
    return Report(kit.make().name, len(kit.claimed), findings)


def run(check: Check, kit: Kit) -> list[Finding]:
    """What it found; an exception that the provider let out is a finding too."""
    try:
        return check(kit)
    except Exception as error:  # noqa: BLE001  # whatever the provider lets out
        return [Finding(getattr(check, "__name__", "check"), "", f"{type(error).__name__}: {error}")]


def named(text: str) -> Any:
    """The class that "my_package.module:MyExecutionProvider" means. Raises InvalidArgument."""
    module, colon, attribute = text.partition(":")
    if not colon:
        raise InvalidArgument(f"{text!r}: expected MODULE:CLASS")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"{text!r}: {error}") from error
