"""Paired samples of three processes: a changed version, and two of the version it is compared with. The second one is the control."""

import math
from collections.abc import Sequence
from statistics import median

from ort_lite.record import Record

CONFIDENCE = 0.95
AGREEMENT = 0.8
"""The share of groups that must show a change in the same direction."""


class Limits(Record):
    """How large a change must be before it is reported: a share, and an amount in the unit of the samples. Both must be exceeded."""

    share: float
    amount: float = 0.0


class Group(Record):
    """Samples that three processes took in turns; the k-th of each belong together. Seconds or bytes."""

    changed: tuple[float, ...]
    base: tuple[float, ...]
    control: tuple[float, ...]

    def changes(self) -> list[float]:
        """Return log(changed / base) by round, base being the geometric mean of base and control."""
        rounds = zip(self.changed, self.base, self.control, strict=True)
        return [math.log(changed) - 0.5 * (math.log(base) + math.log(control)) for changed, base, control in rounds]

    def noise(self) -> list[float]:
        """Return log(control / base) by round: what two processes of one version differ by."""
        return [math.log(control / base) for base, control in zip(self.base, self.control, strict=True)]


class Comparison(Record):
    """All groups of one figure. `ratio` is changed over base: above 1 is slower, or larger."""

    ratio: float
    interval: tuple[float, float]
    """Of the ratio, with 95 % confidence, over the rounds of all groups."""
    noise: float
    """The largest share by which the control differed from base, over the groups."""
    base: float
    """The median sample of base, in seconds or bytes."""
    groups: tuple[float, ...]
    """Each group's ratio. Groups are processes of their own."""

    def exceeds(self, limits: Limits) -> bool:
        """Return True if the change is larger than the limits and than the noise, in whichever direction."""
        change = abs(self.ratio - 1)
        return change > max(limits.share, self.noise) and change * self.base > limits.amount


def compare(groups: Sequence[Group]) -> Comparison:
    changes = [median(group.changes()) for group in groups]
    low, high = interval([change for group in groups for change in group.changes()])
    return Comparison(
        ratio=math.exp(median(changes)),
        interval=(math.exp(low), math.exp(high)),
        noise=max(math.expm1(abs(median(group.noise()))) for group in groups),
        base=median([sample for group in groups for sample in (*group.base, *group.control)]),
        groups=tuple(map(math.exp, changes)),
    )


def suspicious(comparison: Comparison, limits: Limits) -> bool:
    """Return True if a first group looks like a change: it is then measured again, in new processes.

    The bar is lower than for a report, so that noise which hides a part of a change does not hide all of it.
    """
    return comparison.exceeds(limits.replace(share=0.75 * limits.share, amount=0.75 * limits.amount))


def confirmed(comparison: Comparison, limits: Limits) -> bool:
    """Return True if a change is to be reported: the median over groups exceeds limits and noise, the interval excludes 1, and four
    groups of five show at least half of the limit in the same direction.
    """
    low, high = comparison.interval
    return (
        comparison.exceeds(limits)
        and not low <= 1 <= high
        and _agreeing(comparison, limits) >= AGREEMENT * len(comparison.groups)
    )


def undecided(comparison: Comparison, limits: Limits, count: int) -> bool:
    """Return True if a change may still be confirmed once there are `count` groups: until then so many agree on one direction."""
    return _agreeing(comparison, limits) + count - len(comparison.groups) >= AGREEMENT * count


def _agreeing(comparison: Comparison, limits: Limits) -> int:
    """Count the groups that show at least half of the limit, in the direction that most of them have."""
    return max(sum(sign * (ratio - 1) > limits.share / 2 for ratio in comparison.groups) for sign in (1, -1))


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return bounds of the samples' median that need no assumption about their distribution: two of the samples themselves.

    They are those whose ranks a binomial distribution gives for CONFIDENCE; the extremes where there are too few samples.
    """
    ordered, count = sorted(samples), len(samples)
    below, rank = 0.0, 0
    for k in range(count):  # of k samples below the median, for k = 0, 1, ...
        below += math.comb(count, k) / 2**count
        if below > (1 - CONFIDENCE) / 2:
            rank = max(0, k - 1)
            break
    return ordered[rank], ordered[count - 1 - rank]
