"""Reads compilers' assembly: the innermost loops of a module, and what their instructions do to vector registers."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, reduce
from operator import and_
from typing import NamedTuple

JUMP = re.compile(r"(j\w+|b|b\.\w+|bl?|cbn?z|tbn?z|ret\w*|br|ud2|udf|brk)\s*(?:.*[\s,])?(\.L\w+)?$")
LABEL = re.compile(r"(\.?\w+):")
VECTOR = re.compile(r"%[xyz]mm\d+|\b[qvdsz]\d+(?:\.\w+)?")
PRODUCTS = re.compile(r"v?(fmadd\d+|mul)[ps][sd]|v?pmaddwd|vpdpwssd|vpdpbusd|[su]dot|u?smmla|fmla|fmul|[su]mlal2?|mla|mul")


class Loop(NamedTuple):
    """The instructions of an innermost loop, and whether a register other than the stack's points to the frame."""

    lines: Sequence[str]
    framed: bool

    def products(self) -> int:
        """Multiplications, fused with additions or not."""
        return sum(PRODUCTS.fullmatch(line.split()[0]) is not None and _is_vector(line) for line in self.lines)

    def loads(self) -> int:
        """Reads of memory, not the stack's, into vector registers or as operands of what computes there."""
        return sum(_reads(line) and not self._on_stack(line) for line in self.lines)

    def count(self, prefix: str) -> int:
        """Instructions whose names begin so."""
        return sum(line.startswith(prefix) for line in self.lines)

    def prefetches(self) -> int:
        return sum(line.startswith(("prefetch", "prfm")) for line in self.lines)

    def spilled(self) -> list[str]:
        """Vector registers that go to the stack or come from there."""
        return [line for line in self.lines if _is_vector(line) and self._on_stack(line)]

    def _on_stack(self, line: str) -> bool:
        return re.search(r"\(%rsp|\[sp" + (r"|\(%rbp|\[x29" if self.framed else ""), line) is not None


def _is_vector(line: str) -> bool:
    return VECTOR.search(line) is not None


def _reads(line: str) -> bool:
    """Not from constants of the module's own, which are addressed by the instruction pointer, and not what writes."""
    name, _, operands = line.partition("\t")
    if "[" in operands:
        return name.startswith("ld") and _is_vector(line)
    return "(%" in operands and "(%rip" not in operands and not operands.endswith(")") and _is_vector(line)


@cache
def inner_loops(text: str) -> tuple[Loop, ...]:
    """Of all functions: loops that contain no other."""
    return tuple(loop for function in functions(text) for loop in _loops(function))


def functions(text: str) -> Iterator[list[str]]:
    """Lines of code and labels of each."""
    lines: list[str] = []
    for raw in text.splitlines():
        line = re.sub(r"(^|\s)#(\s|APP|NO_APP).*|//.*|\{vex\}", "", raw).strip()
        if raw.startswith("\t.size") and lines:
            yield lines
            lines = []
        elif line and (LABEL.match(line) or not line.startswith(".")):
            lines.append(line)


def _loops(lines: Sequence[str]) -> Iterator[Loop]:
    framed = any(re.match(r"movq\s+%rsp, %rbp|(mov|add)\s+x29, sp", line) for line in lines)
    blocks, names = _blocks(lines)
    following = [_following(block, number, names, len(blocks)) for number, block in enumerate(blocks)]
    before: list[list[int]] = [[] for _ in blocks]
    for block, others in enumerate(following):
        for other in others:
            before[other].append(block)
    bodies: dict[int, set[int]] = {}
    dominators = _dominators(before)
    for tail, heads in enumerate(following):
        for head in heads:
            if dominators[tail] >> head & 1:
                bodies.setdefault(head, set()).update(_body(head, tail, before))
    for head, body in bodies.items():
        if not any(other in body for other in bodies if other != head):
            yield Loop([line for number in sorted(body) for line in blocks[number]], framed)


def _blocks(lines: Sequence[str]) -> tuple[list[list[str]], dict[str, int]]:
    blocks: list[list[str]] = [[]]
    names: dict[str, int] = {}
    for line in lines:
        label = LABEL.match(line)
        if label:
            if blocks[-1]:
                blocks.append([])
            names[label[1]] = len(blocks) - 1
        else:
            blocks[-1].append(line)
            if JUMP.match(line):
                blocks.append([])
    return blocks, names


def _following(block: Sequence[str], number: int, names: dict[str, int], count: int) -> list[int]:
    last = block[-1] if block else ""
    jump = JUMP.match(last)
    found = [names[jump[2]]] if jump and jump[2] in names else []
    if not re.match(r"(jmp|b|ret\w*|br|ud2|udf|brk)\b(?!\.)", last) and number + 1 < count:
        found.append(number + 1)
    return found


def _dominators(before: Sequence[Sequence[int]]) -> list[int]:
    """For each block, of the blocks before each, the bits of those that every way to it goes through.

    All, for one that no way reaches.
    """
    everything = (1 << len(before)) - 1
    found = [1] + [everything] * (len(before) - 1)
    changed = True
    while changed:
        changed = False
        for block in range(1, len(before)):
            new = reduce(and_, (found[other] for other in before[block]), everything) | 1 << block
            if new != found[block]:
                found[block], changed = new, True
    return found


def _body(head: int, tail: int, before: Sequence[Sequence[int]]) -> set[int]:
    """Blocks from which `tail` is reached without passing `head`, and `head`."""
    body, open_ = {head, tail}, [tail]
    while open_:
        block = open_.pop()
        if block != head:
            new = set(before[block]) - body
            body |= new
            open_ += new
    return body
