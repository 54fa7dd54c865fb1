"""No kernel loads an element again that it compared, and uses it as an address."""

from pathlib import Path

import pytest

from tests.cpu.steering import steering_operands

ROOT = Path(__file__).parents[2] / "providers"
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "ort_lite_cpu").rglob("*.py"))
}

TABLE = "a table that lowering made of attributes or of sizes: no caller has its memory"
SCRATCH = "scratch that this call, or one before it in the same run, has filled"
PRIVATE = {
    "choose_experts experts": SCRATCH,
    "copy_by_table table": TABLE,
    "count_ngrams columns": TABLE,
    "count_ngrams table": TABLE,
    "count_words columns": TABLE,
    "count_words stream": "bytes that a step of the run wrote",
    "count_words table": TABLE,
    "count_words words": TABLE,
    "distinct inverse": SCRATCH,
    "distinct order": SCRATCH,
    "gather_elements table": TABLE,
    "gather_nd table": TABLE,
    "give turn": "the number of a loop's turn, in memory of the run",
    "interpolate_planes table": SCRATCH,
    "join picked": "the numbers of kept boxes, in memory of the run",
    "multiply_coded_experts order": SCRATCH,
    "multiply_coded_experts starts": SCRATCH,
    "multiply_columns table": TABLE,
    "multiply_experts order": SCRATCH,
    "multiply_experts starts": SCRATCH,
    "open_blocks places": SCRATCH,
    "scatter_elements table": TABLE,
    "scatter_nd table": TABLE,
    "suppress heap": SCRATCH,
    "suppress strips": SCRATCH,
    "take turn": "the number of a loop's turn, in memory of the run",
    "top_k heap": SCRATCH,
    "top_k_packed heap": SCRATCH,
    "vote starts": TABLE,
    "walk nodes": TABLE,
    "walk starts": TABLE,
    "walk targets": TABLE,
    "walk ways": SCRATCH,
}
"""Operands that steer by plain loads, and that nobody else can write to: `kernel operand`, and whose memory it is."""

OLD = '''
@native
@extents(groups="k", scales="blocks", y="k")
def unpack_weights(groups: Ptr, scales: Ptr, y: Ptr, k: int, blocks: int, part: int, parts: int) -> int:
    """As MatMulNBits was: checked in one loop, loaded again in the next."""
    for i in range(k):
        if groups[i] < 0 or groups[i] >= blocks:
            return failure_status(INDEX_OUT_OF_RANGE, i)
    for i in span(k, part, parts):
        block = int(groups[i])
        y[i] = scales[block]
    return OK
'''
ONCE = OLD.replace(
    "        if groups[i] < 0 or groups[i] >= blocks:\n            return failure_status(INDEX_OUT_OF_RANGE, i)\n",
    "        pass\n",
)
ONCE = ONCE.replace("int(groups[i])", "int(read_once(groups, i))")
AGAIN = OLD.replace("groups[i]", "read_once(groups, i)")
HELPED = """
def find(index: Ptr, i: int) -> int:
    return from_end(index[i], 3)

def fetch(x: Ptr, at: int) -> float:
    return x[at + 1]

@native
@extents(index="n", x="n", y="n")
def gather(index: Ptr, x: Ptr, y: Ptr, n: int) -> int:
    mine = shift(index, 2)
    j = find(mine, 0)
    y[0] = fetch(x, j)
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (OLD, {"unpack_weights": {"groups"}}),
        (AGAIN, {"unpack_weights": {"groups"}}),
        (ONCE, {}),
        (HELPED, {"gather": {"index"}}),
        (HELPED.replace("index[i]", "read_once(index, i)"), {}),
        (HELPED.replace("fetch(x, j)", "x[0] if j > 0 else x[1]"), {}),
    ],
)
def test_the_lint_finds_elements_that_are_loaded_again(source: str, found: dict[str, set[str]]) -> None:
    assert steering_operands({"one": source}) == found


def test_what_steers_an_address_is_loaded_once() -> None:
    found = {f"{kernel} {operand}" for kernel, operands in steering_operands(SOURCES).items() for operand in operands}
    assert sorted(found - PRIVATE.keys()) == [], "load it with read_once, and compare and use that value"
    assert sorted(PRIVATE.keys() - found) == [], "exceptions that nothing needs any more"
