"""Checks of saved compiled models: they run in another instance, or are rejected if they do not fit."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ort_lite.errors import OrtLiteError
from ort_lite.provider.context_nodes import BYTES, is_context
from ort_lite.session.context import NothingToSave
from ort_lite.testing.checks.tries import call_for, format_exception, run_copy
from ort_lite.testing.generated import GeneratedCase
from ort_lite.testing.kit import Finding, Kit

LARGEST, EACH = 16, 4


def saved(kit: Kit) -> list[Finding]:
    """Check that a saved model gives the same results in another instance, and on another device or is rejected there.

    Models of other versions and damaged data must be rejected.
    """
    found: list[Finding] = []
    with TemporaryDirectory() as folder:
        for k, case in enumerate(_with_most(kit)):
            session = call_for(partial(kit.session, case.model))
            if isinstance(session, Exception) or isinstance(run_copy(session, case.feeds[0]), Exception):
                continue  # a finding of `graphs` or `attributes`
            path = Path(folder, f"{k}.onnx")
            error = call_for(partial(session.save_compiled, path))
            if isinstance(error, NothingToSave):
                return found
            told_of = [format_exception(error)] if isinstance(error, Exception) else _check_reload(kit, case, session, path)
            found += [Finding("saved", case.name, text, kit.to_see("saved", case)) for text in told_of]
    return found + [Finding("saved", "", text) for text in _versions(kit)]


def _with_most(kit: Kit) -> list[GeneratedCase]:
    """Return the completely claimed models with the most constants, attributes and nodes, a few for each first operator."""
    found: defaultdict[str, list[GeneratedCase]] = defaultdict(list)
    for case in sorted(kit.generator_cases, key=lambda one: (-len(one.constants), -one.size[1], -len(one.nodes))):
        first = found[case.operators[0]]
        if len(first) < EACH and set(case.operators) <= set(kit.takes(case)):
            first.append(case)
    return [*chain(*found.values())][:LARGEST]


def _check_reload(kit: Kit, case: GeneratedCase, session: Any, path: Path) -> Iterator[str]:
    wanted = [run_copy(session, feed) for feed in case.feeds]
    provider = kit.make()
    again = call_for(partial(kit.session, str(path), provider))
    if isinstance(again, Exception):
        yield f"saved, another instance refuses it: {format_exception(again)}"
        return
    yield from _same(kit, case, again, wanted, "saved and loaded")
    for name in ("device_id",) if "device_id" in provider.get_options() else ():
        other = call_for(partial(kit.make, **{name: 1}))
        elsewhere = other if isinstance(other, Exception) else call_for(partial(kit.session, str(path), other))
        if not isinstance(elsewhere, Exception):
            yield from _same(kit, case, elsewhere, wanted, f"loaded with {name}=1")
        elif not isinstance(elsewhere, OrtLiteError):
            yield f"loaded with {name}=1: {format_exception(elsewhere)}; expected CompileError"
    session.close()
    yield from _same(kit, case, again, wanted, "when the session that saved it is closed")
    yield from _check_corruption(kit, again)


def _same(kit: Kit, case: GeneratedCase, session: Any, wanted: list[Any], when: str) -> Iterator[str]:
    for feed, right in zip(case.feeds, wanted, strict=True):
        got = run_copy(session, feed)
        text = format_exception(got) if isinstance(got, Exception) else kit.differs(got, right)
        if text is not None:
            yield f"{when}: {text}"
            return


def _check_corruption(kit: Kit, session: Any) -> Iterator[str]:
    """Check that half of the bytes, no bytes and other bytes are rejected."""
    for partition in session._stage_results.assignment.partitions:
        (node,) = partition.nodes if len(partition.nodes) == 1 else (None,)
        if node is None or not is_context(node):
            continue
        whole = bytes(str(node.attr("ep_cache_context", "")).encode(*BYTES))
        for label, data in (("half", whole[: len(whole) // 2]), ("none", b""), ("others instead", b"\x5a" * len(whole))):
            error = call_for(partial(kit.new_provider().deserialize, partition, data))
            if not isinstance(error, Exception):  # whichever: ort_lite names the provider
                yield f"deserialize took {label} of its {len(whole)} bytes; expected an error"


def _versions(kit: Kit) -> Iterator[str]:
    """Check partitions that another version, or another program, saved."""
    provider = kit.new_provider()
    mine = provider.compatibility()
    if provider.check_compatibility(mine) is not None:
        yield f"check_compatibility refuses {mine!r}, which compatibility() gives: {provider.check_compatibility(mine)}"
    newer = re.sub(r"\d+", lambda number: str(int(number[0]) + 1000), mine)
    for other in dict.fromkeys([newer, "", f"not {mine}", "what nobody ever saved"]):
        if other != mine and provider.check_compatibility(other) is None:
            yield f"check_compatibility takes what was saved with {other!r}; compatibility() gives {mine!r}"
