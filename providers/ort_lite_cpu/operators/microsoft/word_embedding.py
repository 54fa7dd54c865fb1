"""WordConvEmbedding of com.microsoft: words become vectors by a convolution over the embeddings of their characters."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, SUMS, Ptr, like, native, read_once, shift, span, tanh
from ort_lite.shapes import equal, less
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import REAL, operator

PRODUCT = 0.1
"""The nanoseconds in which a weight is multiplied."""


class Words(NamedTuple):
    """Sizes: words of `letters` characters, and filters over `width` characters, each of `size` numbers out of `entries` rows."""

    words: int
    letters: int
    filters: int
    width: int
    size: int
    entries: int


@native(fastmath=SUMS)
def add_product(total: Any, a: Ptr, b: Ptr, n: int) -> Any:
    """Return total + a (n,) @ b (n,)."""
    for i in range(n):
        total += a[i] * b[i]
    return total


@native
@extents(
    x="g.words * g.letters",
    w="g.filters * g.width * g.size",
    bias="g.filters",
    table="g.entries * g.size",
    y="g.words * g.filters",
)
def embed_words(x: Ptr, w: Ptr, bias: Ptr, table: Ptr, y: Ptr, g: Words, part: int, parts: int) -> int:
    """y (words, filters) = tanh of the largest sum that a filter of w (filters, width, size) has in a word, plus bias.

    x (words, letters) are rows of the table (entries, size); others are zeros. A word has as many characters as it has positive
    ones, at least `width`; one that begins with none is empty, and its vector 0.
    """
    for job in span(g.words * g.filters, part, parts):
        word, f = job // g.filters * g.letters, job % g.filters
        length = 0
        for i in range(g.letters):
            length += 1 if int(x[word + i]) > 0 else 0
        if length == 0 or int(x[word]) <= 0:
            y[job] = like(y, 0)
            continue
        best = like(y, 0)
        for first in range(max(length - g.width, 0) + 1):
            total = like(y, 0)
            for i in range(g.width):
                letter = int(read_once(x, word + first + i))
                if 0 <= letter < g.entries:
                    total = add_product(total, shift(w, (f * g.width + i) * g.size), shift(table, letter * g.size), g.size)
            total += bias[f]
            best = best if first > 0 and total < best else total
        y[job] = tanh(best)
    return OK


@operator("WordConvEmbedding", domain="com.microsoft", types=REAL, typed_by=1)
def word_conv_embedding(op: NodeLowering) -> None:
    """Emit WordConvEmbedding. O(words * letters * weights). Spec: onnxruntime WordConvEmbedding-1."""
    x, w, bias, table, y = op.input(0), op.input(1), op.input(2), op.input(3), op.output(0)
    (words, letters), (filters, _, width, size) = x.shape, w.shape
    for name, dim in (("embedding_size", filters), ("conv_window_size", width), ("char_embedding_size", size)):
        wanted = op.attr(name, -1)
        if wanted != -1:
            op.require(equal(wanted, dim), name + " and the filters differ: {0} and {1}", wanted, dim)
    op.require(1 - less(letters, width), "filters of {0} characters for words of {1}", width, letters)
    sizes: Any = (words, letters, filters, width, size, table.shape[0])
    work = linear_work(y.size * letters * width * size, PRODUCT)
    op.emit(embed_words, [x, w, bias, table, y], g=Words(*sizes), work=work)
