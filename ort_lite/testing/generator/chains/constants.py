"""Constants, nodes that can be computed before the run, and duplicate nodes."""

import numpy as np

from ort_lite.graph.types import TensorType
from ort_lite.testing.generator.arrays import indices, numbers
from ort_lite.testing.generator.chain import ChainDraft, chain_for
from ort_lite.testing.generator.draft import Draft
from ort_lite.transform.rewriter import FOLD_LIMIT


@chain_for("constants_to_initializers")
def constant_node(chain: ChainDraft) -> None:
    """Add a Constant node to a value."""
    x = chain.value(1)
    shape = chain.draw.broadcastable(chain.shape(x), wider=False)
    value = numbers(chain.rng, shape, "float32")
    chain.node("Add", x, chain.node("Constant", value=value))


@chain_for("fold_constants")
def constant_nodes(chain: ChainDraft) -> None:
    """Append nodes of constants, whose result is combined with a computed value."""
    x = chain.value(1)
    shape = chain.draw.broadcastable(chain.shape(x), wider=False)
    total = chain.node(chain.rng.choice(("Add", "Mul", "Sub")), chain.constant(shape), chain.constant(shape))
    chain.node("Add", x, chain.node(chain.rng.choice(("Neg", "Abs", "Relu")), total))


@chain_for("merge_duplicate_initializers")
def same_constants(chain: ChainDraft) -> None:
    """Use two initializers with the same contents."""
    x = chain.value(1)
    array = numbers(chain.rng, chain.draw.broadcastable(chain.shape(x), wider=False), "float32")
    first, second = (chain.draft.constant(one).name for one in (array, array.copy()))
    chain.node("Mul", chain.node("Add", x, first), second)


@chain_for("merge_common_subexpressions")
def same_nodes(chain: ChainDraft) -> None:
    """Apply the same operator to the same value twice."""
    x = chain.value(1)
    op_type = chain.rng.choice(("Relu", "Sigmoid", "Neg", "Tanh", "Exp"))
    first, second = (chain.node(op_type, x) for _ in range(2))
    chain.node("Add", first, chain.node("Abs", second))


@chain_for("fold_shapes")
def shape_of_value(chain: ChainDraft) -> None:
    """Add the size of a value's shape to the value."""
    x = chain.value(1, least=1)
    chain.node("Add", x, chain.node("Cast", chain.node("Size", chain.node("Shape", x)), to=1))


@chain_for("fold_known_contents")
def shape_arithmetic(chain: ChainDraft) -> None:
    """Append Shape, Gather of some sizes, Concat and Reshape."""
    x = chain.value(1, least=1)
    sizes = chain.node("Shape", x)
    first = chain.node("Gather", sizes, chain.ints(0))
    chain.node("Reshape", x, chain.node("Concat", first, chain.ints(-1), axis=0))


@chain_for("gather_before_computing")
def gather_of_product(chain: ChainDraft) -> None:
    """Gather rows of a byte table that is cast to float and scaled, and is too large to be folded."""
    rows, columns = FOLD_LIMIT // (4 * 64) + 1, 64
    table = chain.array(numbers(chain.rng, (rows, columns), "int8"))
    wide = chain.node("Cast", table, to=1)
    scaled = chain.node("Mul", wide, chain.constant((rows, 1)) if chain.chance(0.5) else chain.scalar(0.125))
    where = chain.draw.tensor_of("int64", chain.draw.shape(0, 2), indices(rows), constant=False)
    chain.node("Gather", scaled, where)


def branch(chain: ChainDraft, x: str, op_type: str) -> Draft:
    """Return a body without inputs that reads x."""
    body = Draft(chain.draft.opsets, chain.rng, chain.draft.rules, chain.draft)
    body.outputs = [one.name for one in body.append(op_type, [x])]
    return body


@chain_for("inline_known_if")
def constant_if(chain: ChainDraft) -> None:
    """Append an If with a constant condition."""
    x = chain.value(1)
    condition = chain.array(np.array(chain.chance(0.5)))
    attributes = {"then_branch": branch(chain, x, "Relu"), "else_branch": branch(chain, x, "Neg")}
    known = chain.lookup(x)
    chain.draft.append("If", [condition], attributes, 1, types=[known.type])


@chain_for("hoist_loop_invariants")
def loop_invariants(chain: ChainDraft) -> None:
    """Append a Loop that computes a value in each iteration, sometimes from its state, and adds it to the state."""
    x = chain.value(1)
    known = chain.lookup(x)
    body = Draft(chain.draft.opsets, chain.rng, chain.draft.rules, chain.draft)
    body.formal(TensorType("int64", ()))
    condition = body.formal(TensorType("bool", ())).name
    state = body.formal(known.type).name
    [again] = body.append("Identity", [condition])
    [same] = body.append(chain.rng.choice(("Relu", "Neg", "Sigmoid")), [x if chain.chance(0.7) else state])
    [total] = body.append("Add", [state, same.name])
    body.outputs = [again.name, total.name]
    turns = chain.array(np.array(chain.draw.integer(0, 3), np.int64))
    inputs = [turns, chain.array(np.array(True)), chain.fresh(chain.shape(x))]
    chain.draft.append("Loop", inputs, {"body": body}, 1, types=[known.type])
