"""Texts about a run: models by status, explanations, refusals of oracles, slowest models, coverage."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from ort_lite.testing.generator import GenerationTarget, ModelGenerator
from tests.generated.journal import NONE, Entry
from tests.generated.verdict import DIFFERENT, EXPLAINED, INVALID, SAME

SLOWEST = 5
REASONS = 3
"""Reasons that are shown of each oracle that refuses and of each target that is missing."""


def summary(entries: Collection[Entry], generator: ModelGenerator, claimed: Collection[GenerationTarget]) -> str:
    """Describe the entries of a run, and the coverage that its generator counts."""
    judged = [entry for entry in entries if entry.status != NONE]
    lines = [f"{len(judged)} models with {sum(entry.nodes for entry in judged)} nodes"]
    counts = Counter(entry.status for entry in entries)
    lines += [f"{counts[status]:8}  {status}" for status in (SAME, EXPLAINED, DIFFERENT, INVALID)]
    lines += [f"{counts[NONE]:8}  numbers without a model"] if counts[NONE] else []
    lines += _explanations(judged)
    lines += _refusals(judged)
    lines += _slowest(judged)
    lines += ["", _share(generator, claimed)]
    lines += _invalid(judged)
    lines += _differences(judged)
    return "\n".join(lines) + "\n"


def _explanations(entries: Collection[Entry]) -> Iterator[str]:
    counts = Counter(name for entry in entries for name in entry.explanations)
    if counts:
        yield "\nexplanations, by share of models"
    for name, count in counts.most_common():
        yield f"{count / len(entries):8.2%}  {name}"


def _refusals(entries: Collection[Entry]) -> Iterator[str]:
    """Answers and refusals of each oracle, and what it refuses most; "onnxruntime, Trilu" is one node that it was asked about."""
    answers = Counter(name for entry in entries for name in entry.oracles)
    refusals: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        for name, text in entry.refusals.items():
            oracle, _, subject = name.partition(", ")
            refusals[oracle][f"{subject.lstrip('.')}: {' '.join(text.split())[:100]}".removeprefix(": ")] += 1
    if answers or refusals:
        yield "\noracles: answers, refusals, the most frequent reasons"
    for name in sorted({*answers, *refusals}):
        yield f"{answers[name]:8} {refusals[name].total():8}  {name}"
        yield from (f"{count:26}  {reason}" for reason, count in refusals[name].most_common(REASONS))


def _slowest(entries: Iterable[Entry]) -> Iterator[str]:
    yield "\nslowest models, in seconds"
    for entry in sorted(entries, key=lambda entry: -entry.seconds)[:SLOWEST]:
        yield f"{entry.seconds:8.2f}  {entry.number} {entry.target}"


def _invalid(entries: Iterable[Entry]) -> Iterator[str]:
    rows = [(entry, entry.target, entry.invalid) for entry in entries if entry.status == INVALID]
    yield from _listed("models that are not valid", rows)


def _differences(entries: Iterable[Entry]) -> Iterator[str]:
    rows = [
        (entry, f"{entry.target}; {oracle}", text)
        for entry in entries
        if entry.status == DIFFERENT
        for oracle, text in entry.differences[:1]
    ]
    yield from _listed("unexplained differences", rows)


def _listed(title: str, rows: Sequence[tuple[Entry, str, str]]) -> Iterator[str]:
    """A line for each row: the number of the model, a subject, and a text that is cut."""
    if rows:
        yield f"\n{title}"
    for entry, subject, text in rows:
        yield f"{entry.number:8}  {subject}: {' '.join(text.split())[:160]}"


def _share(generator: ModelGenerator, claimed: Collection[GenerationTarget]) -> str:
    covered = sum(generator.coverage.models[target] > 0 for target in claimed)
    within = len(generator.coverage.targets)
    return (
        f"{covered} of {len(claimed)} targets that kernels claim are covered ({covered / max(len(claimed), 1):.1%}); "
        f"the generator has recipes for {within}"
    )


def missing(generator: ModelGenerator, claimed: Collection[GenerationTarget]) -> str:
    """List the targets that no model has, each with the reasons for which proposals of its recipe were rejected."""
    lines = [_share(generator, claimed)]
    reasons: dict[GenerationTarget, Counter[str]] = defaultdict(Counter)
    for (target, text), count in generator.rejections.items():
        reasons[target][text] += count
    with_recipe = set(generator.coverage.targets)
    for target in claimed:
        if not generator.coverage.models[target]:
            text = "; ".join(f"{count} x {text}" for text, count in reasons[target].most_common(REASONS))
            lines.append(f"{target}: {text or ('not tried' if target in with_recipe else 'no recipe')}")
    return "\n".join(lines) + "\n"
