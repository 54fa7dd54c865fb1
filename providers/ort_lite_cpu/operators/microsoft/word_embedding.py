"""WordConvEmbedding of com.microsoft: words become vectors by a convolution over the embeddings of their characters."""

from typing import Any, NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, like, native, read_once, select, span, tanh
from ort_lite.shapes import equal, less, maximum
from ort_lite_cpu.costs import linear_work
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import REAL, operator

LETTER, SUM = 0.2, 0.1
"""The nanoseconds in which a number of a character is copied, and a sum of a window is compared."""


class Words(NamedTuple):
    """Sizes: words of `letters` characters, filters over `width` of them, and `sums`, the windows that begin in any word."""

    words: int
    letters: int
    filters: int
    width: int
    sums: int


@native
@extents(x="count", table="entries * n", y="count * n")
def look_up(x: Ptr, table: Ptr, y: Ptr, count: int, entries: int, n: int, part: int, parts: int) -> int:
    """y (count, n) = rows x (count,) of the table (entries, n), zeros for those that it does not have."""
    for i in span(count, part, parts):
        row = int(read_once(x, i))
        known = 0 <= row < entries
        for j in range(n):
            y[i * n + j] = table[row * n + j] if known else like(y, 0)
    return OK


@native
@extents(x="g.words * g.letters", sums="g.sums * g.filters", y="g.words * g.filters")
def pool_words(x: Ptr, sums: Ptr, y: Ptr, g: Words, part: int, parts: int) -> int:
    """y (words, filters) = tanh of the largest of sums (sums, filters) of windows that begin in a word of x (words, letters).

    A word has as many characters as it has positive ones, at least `width`; one that begins with none is empty, and its vector 0.
    """
    for word in span(g.words, part, parts):
        first, out, length = word * g.letters, word * g.filters, 0
        for i in range(first, first + g.letters):
            length += 1 if int(x[i]) > 0 else 0
        if length == 0 or int(x[first]) <= 0:
            for f in range(g.filters):
                y[out + f] = like(y, 0)
            continue
        for i in range(max(length - g.width, 0) + 1):
            own = (first + i) * g.filters
            for f in range(g.filters):
                y[out + f] = select(i > 0 and sums[own + f] < y[out + f], y[out + f], sums[own + f])
        for f in range(g.filters):
            y[out + f] = tanh(y[out + f])
    return OK


@operator("WordConvEmbedding", domain="com.microsoft", types=REAL, typed_by=1)
def word_conv_embedding(op: NodeLowering) -> None:
    """Emit WordConvEmbedding: one product of all windows, which overlap in memory. Spec: onnxruntime WordConvEmbedding-1."""
    x, w, bias, table, y = op.input(0), op.input(1), op.input(2), op.input(3), op.output(0)
    (words, letters), (filters, _, width, size) = x.shape, w.shape
    for name, dim in (("embedding_size", filters), ("conv_window_size", width), ("char_embedding_size", size)):
        wanted = op.attr(name, -1)
        if wanted != -1:
            op.require(equal(wanted, dim), name + " and the filters differ: {0} and {1}", wanted, dim)
    op.require(1 - less(letters, width), "filters of {0} characters for words of {1}", width, letters)
    count, windows = words * letters, maximum(words * letters - width + 1, 0)
    found, sums = op.temporary(w.dtype, (count, size)), op.temporary(w.dtype, (windows, filters))
    sizes: dict[str, Any] = {"count": count, "entries": table.shape[0], "n": size}
    op.emit(look_up, [x, table, found], **sizes, work=linear_work(count * size, LETTER))
    product = Product(windows, filters, width * size, transposed=True, bias=bias)
    emit_dynamic_gemm(op, product, found, op.view(w, (filters, width * size)), sums, steps=(size, width * size))
    g: Any = (words, letters, filters, width, windows)
    op.emit(pool_words, [x, sums, y], g=Words(*g), work=linear_work(windows * filters, SUM))
