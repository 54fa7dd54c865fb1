"""Matrix products and what is written with them."""

from ort_lite.inference import Info, Op, broadcast, merge, shape_rule
from ort_lite.shapes import Dim, Shape
from ort_lite_transforms.shapes.operands import common_dim


def product_shape(op: Op, a: Shape, b: Shape) -> Shape:
    """NumPy's matmul: (..., m, k) @ (..., k, n), a vector being a row on the left and a column on the right."""
    if not a or not b:
        raise op.error("a scalar has no matrix product")
    common_dim(op, [a[-1], b[-2] if len(b) > 1 else b[0]])
    return (*broadcast(a[:-2], b[:-2]), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


@shape_rule("MatMul")
def matmul(op: Op) -> list[Info]:
    """Spec: ONNX MatMul-13."""
    return [op.tensor(op.dtype(0), product_shape(op, op.shape(0), op.shape(1)))]


@shape_rule("MatMulInteger", types=("int32",))
def matmul_integer(op: Op) -> list[Info]:
    """Spec: ONNX MatMulInteger-10."""
    return [op.tensor("int32", product_shape(op, op.shape(0), op.shape(1)))]


@shape_rule("QLinearMatMul", types=(7,))
def qlinear_matmul(op: Op) -> list[Info]:
    """Infer the product in the type of y's zero point. Spec: ONNX QLinearMatMul-21."""
    return [op.tensor(op.dtype(7), product_shape(op, op.shape(0), op.shape(3)))]


def gemm_shape(op: Op, a: Shape, b: Shape) -> list[Dim]:
    """(M, N) of two matrices, either of them transposed or not."""
    if len(a) != 2 or len(b) != 2:
        raise op.error("both operands should have rank 2")
    return [a[1 if op.attr("transA", 0) else 0], b[0 if op.attr("transB", 0) else 1]]


@shape_rule("Gemm")
def gemm(op: Op) -> list[Info]:
    """Spec: ONNX Gemm-13."""
    return [op.tensor(op.dtype(0), gemm_shape(op, op.shape(0), op.shape(1)))]


@shape_rule("Einsum")
def einsum(op: Op) -> list[Info]:
    """Dims by letter; an ellipsis stands for dims that broadcast. Spec: ONNX Einsum-12."""
    equation = op.attr("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    _check_equation(op, equation, left, right)
    terms = left.split(",")
    if len(terms) != len(op.inputs):
        raise op.error(f"the equation has {len(terms)} terms for {len(op.inputs)} inputs")
    sizes: dict[str, Dim] = {}
    spread = 0  # dims that the ellipsis stands for
    for index, term in enumerate(terms):
        shape = op.shape(index)
        labels = _labels(term, len(shape))
        if len(labels) != len(shape):
            raise op.error(f"equation {equation!r}: term {term!r} does not fit rank {len(shape)}")
        spread = max(spread, sum(len(label) > 1 for label in labels))
        for label, dim in zip(labels, shape, strict=True):
            sizes[label] = merge(sizes.get(label, 1), dim)
    if arrow:
        count = len(right.replace("...", "")) + (spread if "..." in right else 0)
        wanted = _labels(right, count)
    else:
        letters = left.replace("...", "").replace(",", "")
        wanted = [*_labels("...", spread), *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]
    return [op.tensor(op.dtype(0), [sizes[label] for label in wanted])]


def _check_equation(op: Op, equation: str, left: str, right: str) -> None:
    plain = [part.replace("...", "", 1) for part in (*left.split(","), right)]
    strange = next((part for part in plain if part and not (part.isascii() and part.isalpha())), None)
    if strange is not None:
        raise op.error(f"equation {equation!r}: {strange!r} is no row of letters")
    unknown = [letter for letter in plain[-1] if letter not in left]
    if unknown or len(set(plain[-1])) < len(plain[-1]):
        raise op.error(f"equation {equation!r}: the result {right!r} has letters twice, or such as no input has")


def _labels(term: str, rank: int) -> list[str]:
    """One label a dim; those of the ellipsis are counted from its end, where they are aligned."""
    before, dots, after = term.partition("...")
    count = max(rank - len(before) - len(after), 0) if dots else 0
    return [*before, *(f"...{k}" for k in reversed(range(count))), *after]


@shape_rule("Det")
def det(op: Op) -> list[Info]:
    """(..., M, M) -> (...). Spec: ONNX Det-22."""
    return [op.tensor(op.dtype(0), op.shape(0)[:-2])]


RULES = [*matmul, *matmul_integer, *qlinear_matmul, *gemm, *einsum, *det]
