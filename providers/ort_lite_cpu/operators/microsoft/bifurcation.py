"""BifurcationDetector of com.microsoft: how far a guess at the next tokens was right, and where the source goes on alike."""

from typing import TYPE_CHECKING, Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, native, null, read_once
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels import primitives
from ort_lite_cpu.lowering.lowered import SERIAL
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import bits
from ort_lite_cpu.registry import operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


def find_tokens(source: Ptr, tokens: Ptr, start: int, length: int, at: int, n: int) -> int:
    """Return the first position from `start` on at which source (length,) has tokens[at : at + n]; -1 for none."""
    for first in range(start, length - n + 1):
        same = 0
        while same < n and source[first + same] == tokens[at + same]:
            same += 1
        if same == n:
            return first
    return -1


@native
@extents(source="length", current="known", before="1", guess="guessed", tokens="known + guessed", total="1", suffix="1")
def bifurcate(
    source: Ptr,
    current: Ptr,
    before: Ptr,
    guess: Ptr,
    tokens: Ptr,
    total: Ptr,
    suffix: Ptr,
    length: int,
    known: int,
    guessed: int,
    shortest: int,
    longest: int,
    part: int,
    parts: int,
) -> int:
    """tokens = current (known,) and what of guess (guessed,) agrees with source[before[0]:], with the token that does not, then 0.

    total[0]: how many. suffix[0]: behind the only place where source has the last tokens, as many as it takes, else -1. One part.
    """
    for i in range(known):
        tokens[i] = current[i]
    count, start = known, read_once(before, 0)
    if not null(guess):
        if start < 0 or start > length or guessed != length + 1 - start:
            return failure_status(INDEX_OUT_OF_RANGE, 0)
        right = 0
        while right < length - start and guess[right] == source[start + right]:
            right += 1
        for i in range(right + 1):
            tokens[count + i] = guess[i]
        count += right + 1
    for i in range(count, known + guessed):
        tokens[i] = 0
    total[0] = count
    suffix[0] = -1
    for n in range(shortest, longest + 1):
        if n > count:
            break
        first = find_tokens(source, tokens, 0, length, count - n, n)
        if first < 0:
            break
        if first + n >= length or find_tokens(source, tokens, first + 1, length, count - n, n) < 0:
            suffix[0] = first + n
            break
    return OK


@operator("BifurcationDetector", domain="com.microsoft", types=frozenset({"int64"}))
def bifurcation_detector(op: NodeLowering) -> None:
    """Emit BifurcationDetector. O(source * max_ngram_size**2). Spec: onnxruntime BifurcationDetector-1."""
    source, current, before, guess = op.input(0), op.input(1), op.input(2), op.optional(3)
    guessed: Dim = 0 if guess is None else guess.size
    tokens, total = op.temporary("int64", (current.size + guessed,)), op.temporary("int64", (1,))
    suffix = op.output(1) if op.wants(1) else op.temporary("int64", (1,))
    shortest, longest = op.attr("min_ngram_size", 1), op.attr("max_ngram_size", 3)
    if not 1 <= shortest <= longest:
        raise op.reject(f"min_ngram_size {shortest}, max_ngram_size {longest}")
    operands = [source, current, before, guess, tokens, total, suffix]
    sizes: dict[str, Any] = {"length": source.size, "known": current.size, "guessed": guessed}
    op.emit(
        bifurcate, operands, **sizes, shortest=shortest, longest=longest, work=source.size, slices=SERIAL, message=_wrong_guess
    )
    shape = op.info().shape
    assert shape is not None
    op.read_dim(shape[0], total)
    y = op.output(0)
    op.emit(primitives.copy, [bits(tokens), bits(y)], count=y.size)


def _wrong_guess(failure: "Failure") -> str:
    length, guessed, start = failure.scalar("length"), failure.scalar("guessed"), failure.element(2, 0)
    return (
        f"pred_tokens has {guessed} tokens, src_tokens {length}, and prev_suffix_match_idx is {start}: pred_tokens should have one "
        f"token more than src_tokens has from there on, {max(length - start, 0) + 1}"
    )
