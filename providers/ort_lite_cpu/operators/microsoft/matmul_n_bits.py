"""MatMulNBits of com.microsoft: weights of 2, 4 or 8 bits, with a scale and a zero point for each block of a column."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.native.extents import extents
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, OK, Ptr, Static, failure_status, like, native, null, read_once, span
from ort_lite.record import Record
from ort_lite.shapes import ceildiv, equal, maximum, product, select
from ort_lite_cpu.costs import RATE, linear_work
from ort_lite_cpu.kernels.gemm import codes, few_bit_dots, few_bits
from ort_lite_cpu.kernels.gemm.gemm import DEPTH
from ort_lite_cpu.kernels.gemm.microkernel import tile_for
from ort_lite_cpu.kernels.gemm.pack import unpack
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matmul import emit_dynamic_gemm, emit_gemm
from ort_lite_cpu.operators.products import Product
from ort_lite_cpu.registry import operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure


INTEGERS = 4
"""The `accuracy_level` of 8-bit integers."""
ROWS_UNPACKED = 2
"""The rows whose products last about as long as making numbers of all codes."""
QUANTIZED = 0.3
"""The nanoseconds in which an activation is quantized."""
READ = 0.025
"""The nanoseconds in which a byte of weights is read."""
MULTIPLIED = 0.0045
"""The nanoseconds of a product of integers."""


@native
@extents(
    b="ceildiv(((n - 1) * blocks * size + k) * bits, 8)",
    scales="n * blocks",
    zeros="n * (ceildiv(blocks * bits, 8) if packed else blocks)",
    groups="k",
    y="n * k",
)
def unpack_weights(
    b: Ptr,
    scales: Ptr,
    zeros: Ptr,
    groups: Ptr,
    y: Ptr,
    n: int,
    k: int,
    blocks: int,
    size: int,
    bits: Static,
    packed: Static,
    part: int,
    parts: int,
) -> int:
    """y (n, k) = (b - zero) * scale, b (n, blocks, size * bits / 8) with its first elements in the lowest bits.

    scales (n, blocks); zeros (n, blocks): bits that are packed row by row, or floats, or null for the middle. groups (k,): the block
    of each element, or null if every `size` elements are a block; then `blocks` of them hold k.
    """
    share = 8 // bits
    row_bytes = (blocks + share - 1) // share
    for row in span(n, part, parts):
        for i in range(k):
            element = i % share
            code = (int(b[(row * blocks * size + i) // share]) >> (element * bits)) & ((1 << bits) - 1)
            block = i // size if null(groups) else int(read_once(groups, i))
            if block < 0 or block >= blocks:
                return failure_status(INDEX_OUT_OF_RANGE, i)
            zero = like(y, 1 << (bits - 1))
            if not null(zeros):
                if packed:
                    byte = int(zeros[row * row_bytes + block // share])
                    zero = like(y, (byte >> (block % share * bits)) & ((1 << bits) - 1))
                else:
                    zero = like(y, zeros[row * blocks + block])
            y[row * k + i] = (like(y, code) - zero) * scales[row * blocks + block]
    return OK


@operator("MatMulNBits", domain="com.microsoft", types=frozenset({"float32"}))
def matmul_n_bits(op: NodeLowering) -> None:
    """Emit a (..., K) times the transposed weights (N, K). Constants stay packed if each block is a column of whole words.

    Computes in float32, or in integers of 8 bits if `accuracy_level` is 4, the target has products of bytes, and the weights are
    constants that stay packed, with zero points that are integers. Spec: onnxruntime MatMulNBits-1.
    """
    bits, size, n, k = (op.attr(name, 4) for name in ("bits", "block_size", "N", "K"))
    if bits not in (2, 4, 8) or op.attr("weight_prepacked", 0):
        raise op.reject(
            f"weights of {bits} bits, prepacked {op.attr('weight_prepacked', 0)}; there are 2, 4 and 8, not prepacked"
        )
    if size < 1 or size * bits % 8 or n < 0 or k < 0:
        raise op.reject(f"N {n}, K {k}, block_size {size}: {size * bits} bits a block")
    _check_sizes(op, bits, size, n, k)
    a, y = op.input(0), op.output(0)
    spec = Product(product(a.shape[:-1]), n, k, transposed=True, bias=op.optional(5))
    given = [op.constant(index) for index in range(1, 5)]
    b, scales, zeros, groups = given
    if groups is not None and groups.size and not 0 <= groups.min() <= groups.max() < -(-k // size):
        raise op.reject(f"blocks {groups.min()} to {groups.max()} in {op.raw(4).name!r}; there are {-(-k // size)}")
    if b is not None and scales is not None and all(array is not None or not op.has(i) for i, array in enumerate(given, 1)):
        if size * bits % codes.WORD == 0 and groups is None:
            _emit_blocks(op, spec, a, y, PackedWeights(n, k, b, scales, zeros, bits, size))
            return
        form = f"unpacked {[id(array) for array in given[1:]]}"
        emit_gemm(op, spec, a, _unpack(b, scales, zeros, groups, bits, size, n, k), source=b, y=y, form=form)
        return
    weights, blocks = op.temporary("float32", (n, k)), -(-k // size)
    operands = [op.input(1), op.input(2), op.optional(3), op.optional(4), weights]
    packed = op.has(3) and op.raw(3).dtype == "uint8"
    sizes = {"n": n, "k": k, "blocks": blocks, "size": size}
    op.emit(unpack_weights, operands, **sizes, bits=bits, packed=packed, work=n * k, message=_no_block)
    emit_dynamic_gemm(op, spec, a, weights, y)


class PackedWeights(Record):
    """Constants of a node, as they come: n columns of k codes of `bits` bits, in blocks of `size`."""

    n: int
    k: int
    b: Array
    scales: Array
    zeros: Array | None
    bits: int
    size: int


def _emit_blocks(op: NodeLowering, spec: Product, a: Tensor, y: Tensor, w: PackedWeights) -> None:
    """Emit the product with weights that stay packed, in the order in which kernels read them."""
    n, width, blocks, zeros = w.n, tile_for("f32", op.target).columns, -(-w.k // w.size), w.zeros
    kernels = op.kernels

    def panels(array: Array) -> Array:
        return codes.columns_together(array, width, kernels)

    weights = [
        op.pack(w.b, f"words {n} {width}", lambda: codes.words(w.b.reshape(n, -1), width, kernels)),
        op.pack(w.scales, f"columns {n} {width}", lambda: panels(w.scales.reshape(n, blocks))),
        None
        if zeros is None
        else op.pack(zeros, f"zeros {n} {blocks} {width} {w.bits}", lambda: panels(_points(zeros, n, blocks, w.bits))),
        spec.bias,
        y,
    ]
    if weights[0] is not None and weights[0].constant is not None:
        op.restorable(w.b, partial(_restore_codes, weights[0].constant, n, w.b.shape, w.b.dtype))
    sizes: Any = (spec.m, n, w.k, blocks, w.size)
    g = codes.BlockedProduct(*sizes)
    whole = w.size % few_bit_dots.CHUNK == 0 and (zeros is None or zeros.dtype == np.uint8)
    if op.attr("accuracy_level", 0) == INTEGERS and op.target.has_byte_products and whole:
        _emit_integers(op, a, weights, g, w)
    else:
        _emit_floats(op, a, weights, g, w)


def _restore_codes(words: Array, n: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the codes of which `codes.words` made `words`, bit for bit."""
    return np.ascontiguousarray(unpack(words, n).T).view(dtype).reshape(shape)


def _emit_floats(op: NodeLowering, a: Tensor, weights: list[Tensor | None], g: codes.BlockedProduct, w: PackedWeights) -> None:
    tile, together = tile_for("f32", op.target), few_bits.rows_together(op.target)
    room = maximum(together * (g.blocks * g.size + g.blocks + tile.columns), DEPTH * tile.columns)
    scratch = op.temporary("float32", (op.options.threads * room,))
    lookup = few_bits.looks_up(op.target, w.bits)
    form = few_bits.CodeForm(w.bits, int(w.zeros is not None), int(lookup), together)
    work = maximum(g.m, ROWS_UNPACKED) * g.n * g.k // RATE
    op.emit(few_bits.few_bits, [a, *weights, scratch], g=g, form=form, tile=tile, slices=1, work=work)


def _emit_integers(
    op: NodeLowering, a: Tensor, weights: list[Tensor | None], g: codes.BlockedProduct, w: PackedWeights
) -> None:
    tile, form = few_bit_dots.code_tile(op.target), few_bit_dots.dot_form(op.target, w.bits, w.zeros is not None)
    rows = ceildiv(g.m, tile.rows) * tile.rows
    q, scales = op.temporary("int8", (rows, g.blocks * g.size)), op.temporary("float32", (rows, g.blocks))
    sums, scratch = op.temporary("int32", (rows, g.blocks)), op.temporary("float32", (op.most_parts * g.size,))
    factor = -1 if form.given else form.flip - (1 << (w.bits - 1))
    quantized = [a, q, scales, sums, scratch]
    work = linear_work(g.m * g.k, QUANTIZED)
    op.emit(few_bit_dots.quantize_blocks, quantized, g=g, factor=factor, bits=w.bits, work=work)
    work = linear_work(g.n * g.blocks * (g.size * w.bits // 8 + 4), READ) + linear_work(g.m * g.n * g.k, MULTIPLIED)
    op.emit(few_bit_dots.few_bit_dots, [q, scales, sums, *weights], g=g, form=form, tile=tile, work=work)


def _points(zeros: Array, n: int, blocks: int, bits: int) -> Array:
    """Return zero points (n, blocks): packed ones as bytes, floats unchanged."""
    points = zeros.reshape(n, -1)
    return _split(points, bits)[:, :blocks].astype(np.uint8) if zeros.dtype == np.uint8 else points


def _check_sizes(op: NodeLowering, bits: int, size: int, n: int, k: int) -> None:
    """Require as many elements of each operand as `unpack_weights` reads, and zero points that are bits or float32.

    Groups may be those of whole blocks: the last ones are of no elements.
    """
    blocks = -(-k // size)
    zeros = blocks if op.has(3) and op.raw(3).dtype == "float32" else -(-blocks * bits // 8)
    if op.has(3) and op.raw(3).dtype not in ("uint8", "float32"):
        raise op.reject(f"zero points of {op.raw(3).dtype}, takes uint8 or float32")
    for index, count in ((1, n * blocks * (size * bits // 8)), (2, n * blocks), (3, n * zeros), (4, k)):
        if op.has(index):
            given = op.raw(index).size
            fits = select(equal(given, count), 1, equal(given, blocks * size)) if index == 4 else equal(given, count)
            op.require(fits, f"input {index} has {{0}} elements, expected {{1}}", given, count)


def _no_block(failure: "Failure") -> str:
    return failure.outside("block", 3, 0, failure.scalar("blocks"), 4)


def _unpack(b: Array, scales: Array, zeros: Array | None, groups: Array | None, bits: int, size: int, n: int, k: int) -> Array:
    """Return the weights, as `unpack_weights` writes them."""
    blocks = -(-k // size)
    index = np.arange(k) // size if groups is None else groups.reshape(-1)[:k]
    middle = np.full((n, blocks), 1 << (bits - 1)) if zeros is None else _points(zeros, n, blocks, bits)
    numbers = _split(b.reshape(n, -1), bits)[:, :k]
    found: Array = ((numbers - middle.astype(np.float32)[:, index]) * scales.reshape(n, blocks)[:, index]).astype(np.float32)
    return found


def _split(packed: Array, bits: int) -> Array:
    """Return (n, bytes) as float32 (n, elements); the first of the elements in a byte is in its lowest bits."""
    parts = (packed[:, :, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8((1 << bits) - 1)
    return parts.reshape(len(packed), -1).astype(np.float32)
