"""Matrix products and sums of products."""

from ort_lite.testing.generator.arrays import is_float
from ort_lite.testing.generator.draw import Draw, Shape, check_size
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.windows import weight


@recipe("MatMul")
def matmul(draw: Draw) -> NodeProposal:
    """Draw a weight on the right (usually) or a batch of matrices, sometimes with vectors on either side."""
    a = draw.value(0, low=1, high=4)
    depth = a.sizes[-1]
    if draw.chance(0.1):
        return call([a.name, draw.tensor(1, (depth,))])
    columns = draw.size(8)
    if a.rank <= 2 or draw.chance(0.5):
        return _turn(draw, a.name, a.sizes, weight(draw, 1, (depth, columns)))
    batch = draw.broadcastable(a.sizes[:-2], wider=draw.chance(0.3))
    check_size((*batch, a.sizes[-2], columns))
    return call([a.name, draw.tensor(1, (*batch, depth, columns))])


def _turn(draw: Draw, a: str, shape: Shape, b: str) -> NodeProposal:
    """Return the product of the operands, or sometimes of a constant with the first one."""
    if len(shape) >= 2 and draw.chance(0.15):
        return call([weight(draw, 0, (draw.size(5), shape[-2])), a])
    return call([a, b])


@recipe("Gemm")
def gemm(draw: Draw) -> NodeProposal:
    """Draw two matrices, either of which may be transposed, and sometimes an addend that broadcasts."""
    a = draw.value(0, low=2, high=2)
    flip_a, flip_b = draw.choice([None, 0, 1]), draw.choice([None, 0, 1])
    rows, depth = reversed(a.sizes) if flip_a else a.sizes
    columns = draw.size(8)
    b = weight(draw, 1, (columns, depth) if flip_b else (depth, columns))
    c = ""
    if draw.version < 11 or draw.chance(0.7):
        c = weight(draw, 2, draw.choice([(columns,), (1,), (), (rows, 1), (1, columns), (rows, columns)]))
    factors = [None, 1.0, 0.5, -1.5, 2.0, 0.0] if is_float(draw.kind(0)) else [None, 1.0, 2.0]
    return call([a.name, b, c], transA=flip_a, transB=flip_b, alpha=draw.choice(factors), beta=draw.choice(factors))


@recipe("Einsum")
def einsum(draw: Draw) -> NodeProposal:
    """Draw an equation. Repeated letters of an operand take the diagonal, and "..." broadcasts."""
    letters = draw.rng.sample("abcdefghijkXYZ", draw.integer(1, 5))
    sizes = {letter: draw.size(4) for letter in letters}
    wide: Shape = draw.shape(0, 2, most=3) if draw.chance(0.25) else ()
    dots = bool(wide) or draw.chance(0.05)
    terms, operands = [], []
    for _ in range(draw.choice([1, 2, 2, 2, 3])):
        term = draw.rng.sample(letters, draw.integer(1, min(len(letters), 4)))
        if draw.chance(0.1) and len(term) < 4:
            term.insert(draw.integer(0, len(term)), draw.choice(term))
        shape = [sizes[letter] for letter in term]
        text = "".join(term)
        if dots and draw.chance(0.8):
            at, own = draw.integer(0, len(term)), draw.broadcastable(wide, wider=False)
            shape[at:at] = own
            text = f"{text[:at]}...{text[at:]}"
        terms.append(text)
        operands.append(draw.tensor(0, shape))
    dots = any("..." in term for term in terms)
    return call(operands, equation=_equation(draw, terms, dots, sizes, wide))


def _equation(draw: Draw, terms: list[str], dots: bool, sizes: dict[str, int], wide: Shape) -> str:
    """Return the operands' letters and usually the result's: some of them in any order."""
    blank = draw.choice(["", "", " "])
    left = f"{blank},{blank}".join(terms)
    if draw.chance(0.25):
        return left
    used = sorted(set("".join(terms)) - {"."})
    result = draw.rng.sample(used, draw.integer(0, len(used)))
    check_size((*(sizes[letter] for letter in result), *wide))
    if dots:
        result.insert(draw.integer(0, len(result)), "...")
    return f"{left}{blank}->{blank}{''.join(result)}"


@recipe("Det")
def det(draw: Draw) -> NodeProposal:
    """Draw square matrices behind up to two batch axes."""
    side = draw.integer(1, 4)
    return call([draw.tensor(0, (*draw.shape(0, 2, most=3), side, side))])
