"""NGramRepeatBlock of com.microsoft: tokens that would repeat a run of tokens are made impossible."""

from typing import TYPE_CHECKING

from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, failure_status, like, native, read_once, span
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import REAL, operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

INFINITY = float("inf")


@native
@extents(tokens="rows * length", x="rows * vocabulary", y="rows * vocabulary")
def block_repeats(tokens: Ptr, x: Ptr, y: Ptr, rows: int, length: int, vocabulary: int, n: int, part: int, parts: int) -> int:
    """y (rows, vocabulary) = scores x; -inf for tokens that would end n tokens that the row's tokens (rows, length) have already.

    n is 1 or more.
    """
    for row in span(rows, part, parts):
        own, scores = row * length, row * vocabulary
        for i in range(vocabulary):
            y[scores + i] = x[scores + i]
        end = own + length - (n - 1)
        for first in range(own, end):
            same = 0
            while same < n - 1 and tokens[first + same] == tokens[end + same]:
                same += 1
            if same == n - 1:
                token = int(read_once(tokens, first + same))
                if token < 0 or token >= vocabulary:
                    return failure_status(INDEX_OUT_OF_RANGE, first + same)
                y[scores + token] = like(y, -INFINITY)
    return OK


@operator("NGramRepeatBlock", domain="com.microsoft", types=REAL, typed_by=1)
def n_gram_repeat_block(op: NodeLowering) -> None:
    """Emit NGramRepeatBlock. O(rows * (tokens * ngram_size + vocabulary)). Spec: onnxruntime NGramRepeatBlock-1."""
    n = op.attr("ngram_size")
    if n < 1:
        raise op.reject(f"ngram_size {n}; it should be 1 or more")
    tokens, x, y = op.input(0), op.input(1), op.output(0)
    (rows, length), vocabulary = tokens.shape, x.shape[1]
    given = {"rows": rows, "length": length, "vocabulary": vocabulary, "n": n}
    work = x.size // 4 + tokens.size * 2
    op.emit(block_repeats, [tokens, x, y], **given, work=work, inplace=(2, 1), message=_no_token)


def _no_token(failure: "Failure") -> str:
    return failure.outside("token", 0, 0, failure.scalar("vocabulary"))
