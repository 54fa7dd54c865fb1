"""HardSigmoid and HardSwish that exporters took apart (Paddle's and PyTorch's variants) become one node again."""

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Pattern, Rewriter, Skip, constant, op, rule
from ort_lite_transforms.activations import parameters

_SIXTH = 1 / 6


def _clip(inner: Pattern) -> tuple[Pattern, Pattern]:
    """Limits came as attributes before opset 11; the rewrite looks at them."""
    return op("Clip", inner, constant("low"), constant("high"), name="clip", since=11), op("Clip", inner, name="clip", until=11)


_PLUS_3 = op("Add", "x", 3.0, since=7, commutative=True)
_CLIPPED = _clip(_PLUS_3)


@rule(
    *(op("Div", clip, 6.0, name="root", since=7) for clip in _CLIPPED),
    *(op("Mul", clip, _SIXTH, name="root", since=7, commutative=True) for clip in _CLIPPED),
    level="extended",
    private=True,
)
def compose_hard_sigmoid(
    rewriter: Rewriter, x: Value, clip: Node, root: Node, low: Value | None = None, high: Value | None = None
) -> Done | Skip:
    """clip(x + 3, 0, 6) / 6 is HardSigmoid(x, 1/6, 1/2)."""
    if parameters(rewriter, clip) != [0.0, 6.0]:
        return Skip(f"{clip} has other limits than 0 and 6")
    if x.dtype not in ("float16", "float32"):
        return Skip(f"{x.dtype} is no floating-point type for which 32 bits of 1/6 are enough")
    return rewriter.replace(root, rewriter.op("HardSigmoid", x, alpha=_SIXTH, beta=0.5))


_PRODUCTS = tuple(op("Mul", "x", clip, since=7, commutative=True) for clip in _CLIPPED)


@rule(
    *(op("Div", product, 6.0, name="root", since=7) for product in _PRODUCTS),
    *(op("Mul", product, _SIXTH, name="root", since=7, commutative=True) for product in _PRODUCTS),
    level="extended",
    private=True,
)
def compose_hard_swish(
    rewriter: Rewriter, x: Value, clip: Node, root: Node, low: Value | None = None, high: Value | None = None
) -> Done | Skip:
    """x * clip(x + 3, 0, 6) / 6 is HardSwish(x), which is of opset 14 whatever the model imports."""
    if parameters(rewriter, clip) != [0.0, 6.0]:
        return Skip(f"{clip} has other limits than 0 and 6")
    if x.dtype not in ("float16", "float32", "float64"):
        return Skip(f"{x.dtype} is no floating-point type")
    return rewriter.replace(root, rewriter.op("HardSwish", x, version=max(14, root.version)))


@rule(
    op("Mul", "x", op("HardSigmoid", "x", name="gate"), name="root", since=7, commutative=True),
    level="extended",
    private=True,
)
def compose_gated_hard_swish(rewriter: Rewriter, x: Value, gate: Node, root: Node) -> Done | Skip:
    """x * HardSigmoid(x, 1/6, 1/2) is HardSwish(x), but for float64: the attribute has 32 bits of 1/6."""
    alpha, beta = gate.attr("alpha", 0.2), gate.attr("beta", 0.5)
    if abs(alpha - _SIXTH) > 1e-8 or beta != 0.5:
        return Skip(f"{gate} has alpha {alpha:.4g} and beta {beta:.4g}, not 1/6 and 1/2")
    if x.dtype == "float64":
        return Skip(f"{gate} has 32 bits of 1/6, HardSwish of float64 has 64")
    return rewriter.replace(root, rewriter.op("HardSwish", x, version=max(14, root.version)))
