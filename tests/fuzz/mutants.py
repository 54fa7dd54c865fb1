"""Mutant number n is always the same model with the same feeds: a case of an operator version after one to three mutations."""

from __future__ import annotations

import warnings
from functools import cache
from random import Random

import numpy as np

from tests.conformance.versions.models import FIXED, OPEN, UNNAMED
from tests.conformance.versions.schemas import Key
from tests.fuzz.drafts import MOST_ELEMENTS, Draft
from tests.fuzz.mutations import BETWEEN, MUTATIONS, element_type
from tests.fuzz.seeds import Seed, seeds

SETTLED = 10_000
"""Mutants with smaller numbers keep to the element types of the cases themselves, whose kernels other tests compile too."""
TRIES = 8
"""Draws for one mutation; some do not apply to a draft."""


@cache
def keys() -> list[Key]:
    """Operator versions that have a kernel, mixed: each run of so many even numbers meets them all."""
    found = list(seeds())
    Random(0).shuffle(found)
    return found


@cache
def weighted() -> list[Key]:
    """Operators with many cases have much to go wrong: they occur as often."""
    return [key for key in keys() for _ in range(min(len(seeds()[key]), 12))]


def seed_of(number: int, rng: Random) -> Seed:
    key = keys()[number // 2 % len(keys())] if number % 2 == 0 else rng.choice(weighted())
    own = [seed for seed in seeds()[key] if seed.dtype is None or number >= SETTLED]
    return rng.choice(own)


def mutant(number: int) -> Draft:
    """The draft with that number."""
    rng = Random(number)
    draft = fresh(seed_of(number, rng), rng)
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        draft = mutated(draft, rng, settled=number < SETTLED)
    return draft


def fresh(seed: Seed, rng: Random) -> Draft:
    """The case as it is, brought in one of the ways that models know."""
    inputs, case = list(seed.inputs()), seed.case
    dims = [rng.choice((OPEN, OPEN, FIXED, UNNAMED)) for _ in inputs]
    for k, value in enumerate(inputs):
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.int64 and rng.random() < 0.9:
            dims[k] = FIXED  # models know how many axes they name
    return Draft(
        seed.key,
        inputs,
        dict(case.attributes),
        list(case.outputs),
        list(case.constants) if rng.random() < 0.5 else [],
        seed.key[2],
        dims,
        case.oracle == "reference",
        optimised=rng.random() < 0.6,
        threads=rng.choice((1, 3)),
        before=rng.choice(BETWEEN) if rng.random() < 0.1 else "",
        behind=rng.choice(BETWEEN) if rng.random() < 0.15 else "",
    )


def mutated(draft: Draft, rng: Random, settled: bool) -> Draft:
    """A copy with one more mutation, the draft itself where none of those drawn applies."""
    for _ in range(TRIES):
        [mutation] = rng.choices(list(MUTATIONS), list(MUTATIONS.values()))
        if settled and mutation is element_type:
            continue
        made = draft.copied()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of values that another type cannot hold
            told = mutation(rng, made)
        if told is not None and made.size() <= MOST_ELEMENTS:
            made.story.append(f"{mutation.__name__}: {told}")
            return made
    return draft
