"""The walls notice a kernel that leaves its arrays by one element, whatever the array is; and the runner what it died of."""

import os
import time
from collections.abc import Iterator
from random import Random

import pytest

from ort_lite.provider import RunOptions
from ort_lite_cpu.run.loop import Job
from tests.fuzz import reaching
from tests.fuzz.checking import linux
from tests.fuzz.guarded import GuardedRun, forget
from tests.fuzz.mutants import fresh
from tests.fuzz.reaching import COUNT, KINDS, SCENARIOS, Reaching
from tests.fuzz.runner import run
from tests.fuzz.seeds import seeds
from tests.fuzz.trial import ACCESS, HANG, OK, REFUSED, SIGNAL, Verdict, runs
from tests.fuzz.walls import PAGE, SIDES, Side, Walls

pytestmark = [linux, pytest.mark.slow]


@pytest.fixture(scope="module")
def verdicts() -> dict[Reaching, Verdict]:
    found = {SCENARIOS[verdict.number]: verdict for verdict in run(range(len(SCENARIOS)), judge=reaching.judge)}
    assert len(found) == len(SCENARIOS)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writes", [False, True], ids=["read", "written"])
@pytest.mark.parametrize(("at", "where"), [(-1, "byte -4 of"), (COUNT, "1 bytes beyond the last of")])
def test_one_element_outside_is_fatal(kind: str, at: int, where: str, writes: bool, verdicts: dict[Reaching, Verdict]) -> None:
    verdict = verdicts[Reaching(kind, at, writes)]
    words = {"crossing": "input array", "at load": "operand 0"}.get(kind, kind)
    assert verdict.status == SIGNAL, verdict
    assert f"SIGSEGV\n{where} {words}" in verdict.detail and "reach" in verdict.detail, verdict.detail


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, COUNT - 1])
def test_what_is_inside_may_be_read(kind: str, at: int, verdicts: dict[Reaching, Verdict]) -> None:
    assert verdicts[Reaching(kind, at, writes=False)].status == OK


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_and_constants_may_not_be_written(kind: str, verdicts: dict[Reaching, Verdict]) -> None:
    verdict = verdicts[Reaching(kind, 0, writes=True)]
    assert verdict.status == (ACCESS if kind in ("input", "constant", "crossing") else OK), verdict


@pytest.mark.parametrize("constants", [[], [0]], ids=["run", "folded"])
def test_sessions_of_mutants_run_between_walls(constants: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides, when run and when folded: otherwise no mutant would prove anything."""
    met: list[str] = []
    run_instructions = GuardedRun._instructions

    def noted(self: GuardedRun, job: Job, count: int, side: Side, options: RunOptions | None) -> tuple[int, int] | None:
        met.append(side)
        return run_instructions(self, job, count, side, options)

    monkeypatch.setattr(GuardedRun, "_instructions", noted)
    draft = fresh(seeds()["", "Tanh", 13][0], Random(0))
    draft.before, draft.behind, draft.constants, draft.optimised = "", "", constants, True
    [outputs] = runs(draft, draft.model().SerializeToString(), [draft.feeds()])
    forget()
    assert isinstance(outputs, list) and met == list(SIDES)


@pytest.mark.parametrize("nbytes", [0, 1, PAGE - 1, PAGE, 5 * PAGE + 3, 100 * PAGE])
def test_places_end_or_begin_at_a_wall(nbytes: int) -> None:
    walls = Walls()
    end, start = (walls.take(nbytes, side, 0, "it") for side in SIDES)
    assert (end.address + nbytes) % PAGE == 0 and start.address % PAGE == 0
    assert walls.describe(end.address + nbytes) == f"1 bytes beyond the last of it, {nbytes} bytes"
    assert walls.describe(start.address - 1) == f"byte -1 of it, {nbytes} bytes"
    walls.release()
    assert walls.describe(start.address).endswith("near no array")


def _leaves_late(number: int) -> Iterator[Verdict]:
    yield Verdict(number, "leave", REFUSED, "first")
    if number == 1:
        os._exit(3)
    yield Verdict(number, "leave", OK, "then")


def test_a_mutant_that_ends_its_process_after_a_verdict_keeps_it() -> None:
    found = {verdict.number: verdict for verdict in run([0, 1, 2], judge=_leaves_late)}
    assert [found[k].detail for k in range(3)] == ["then", "first", "then"]


def _sleeps(number: int) -> Iterator[Verdict]:
    time.sleep(60)
    yield Verdict(number, "sleep", OK, "")


def test_a_mutant_that_does_not_answer_hangs() -> None:
    [found] = run([0], judge=_sleeps, patience_s=0.5, label=lambda number: "sleep")
    assert found.status == HANG
    assert "in _sleeps" in found.detail
