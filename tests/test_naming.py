"""Names in the packages: a class name has one meaning, and no function is named by a participle.

A function that acts is named by a verb (`save`), one that returns a value by a noun (`offsets`), and a predicate starts with `is_`,
`has_` or `may_`.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("ort_lite", "providers", "transforms", "plugins")

SHARED_CLASSES = {
    "RunOptions": "onnxruntime's name; the options of the core are its base class",
    "SessionOptions": "onnxruntime's name; the options of the core are its base class",
}
"""Class names with two meanings, and why."""

PARTICIPLES = {
    "_cached": "a helper of kernels: kernel packs and caches know kernels by their text",
    "absorbed": "a member that providers have for `ConsumesConstants`",
    "connection_lost": "asyncio's name",
    "connection_made": "asyncio's name",
    "convolve_packed": "a kernel, which kernel packs name",
    "data_received": "asyncio's name",
    "declined": "a documented member of a report",
    "defined": "the name in TVM, whose arrays NDArray follows",
    "done": "the name in `concurrent.futures`",
    "gather_block_quantized": "an operator",
    "gather_packed": "an operator",
    "inputs_untouched": "the name of a check of the conformance kit",
    "interrupted": "the name of a check of the conformance kit",
    "lower_bound": "a noun",
    "mirrored": "a kernel, which kernel packs name",
    "outputs_owned": "the name of a check of the conformance kit",
    "passed": "a documented member of a report",
    "predicted": "a documented member of the choice of a kernel",
    "recur_packed": "a kernel, which kernel packs name",
    "save_compiled": "a documented member of a session",
    "saved": "the name of a check of the conformance kit",
    "top_k_packed": "a kernel, which kernel packs name",
}
"""Functions that are named by a participle, and why. The list may only get shorter."""

MOST_PARTICIPLES = 22
PREDICATES = {"has", "is", "may"}
NOT_PARTICIPLES = {"bed", "embed", "exceed", "feed", "indeed", "need", "proceed", "seed", "speed"}
IRREGULAR = {"begun", "born", "bound", "broken", "built", "chosen", "dealt", "done", "drawn"}
IRREGULAR |= {"fed", "found", "given", "gone", "grown", "held", "kept", "known", "lost"}
IRREGULAR |= {"made", "meant", "met", "seen", "sent", "shown", "spoken", "taken", "told", "written"}
DEFINITION = re.compile(r"^ *(?:async )?(class|def) (\w+)", re.MULTILINE)
DOCSTRING = re.compile(r'""".*?"""', re.DOTALL)


@cache
def names(keyword: str) -> Counter[str]:
    """Return how often each name follows `class` or `def` in the packages and their benchmarks."""
    files = [file.relative_to(ROOT) for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files if not {"tests", "build"} & {*file.parts}]
    return Counter(name for text in texts for found, name in DEFINITION.findall(DOCSTRING.sub("", text)) if found == keyword)


def is_participle(name: str) -> bool:
    """Return True if the name of a function ends in a participle, unless it is that of a predicate."""
    words = name.strip("_").split("_")
    last = words[-1]
    return words[0] not in PREDICATES and last not in NOT_PARTICIPLES and (last.endswith("ed") or last in IRREGULAR)


def test_each_class_name_has_one_meaning() -> None:
    assert {name for name, count in names("class").items() if count > 1} == SHARED_CLASSES.keys()


def test_functions_are_named_by_verbs_and_nouns() -> None:
    found = {name for name in names("def") if is_participle(name)}
    assert found - PARTICIPLES.keys() == set()
    assert PARTICIPLES.keys() - found == set()
    assert len(PARTICIPLES) <= MOST_PARTICIPLES


def test_participles_differ_from_other_words() -> None:
    found = {"_kept", "is_kept", "run_placed", "seed", "feed", "checked", "lower_bound", "place"}
    assert {name for name in found if is_participle(name)} == {"_kept", "run_placed", "checked", "lower_bound"}
