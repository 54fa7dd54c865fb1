"""Tree ensembles: rows go down the trees in groups, all trees of a group in step; then scores and labels are made of the sums."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array, to_numpy
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, StaticInt, cast, like, native, shift, span
from ort_lite.shapes import less
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, reread
from ort_lite_cpu.operators.ml.scores import TRANSFORMS, Labels, kind_of, logistic, probit, scores_output, transform
from ort_lite_cpu.operators.ml.tree_attributes import floats, ints, nodes_by_id, nodes_by_position
from ort_lite_cpu.operators.ml.tree_tables import ALL, ONE, Forest, Trees, forest
from ort_lite_cpu.registry import REAL, operator

GROUP = 16
"""Paths down that are followed in step: so many loads do not wait for each other. They are those of a row in so many trees, or of
some rows in FEW trees, or of GROUP rows in the last tree."""
FEW = 4
SHALLOW = 4
"""Levels that all rows descend without a check if they have arrived."""
STRIDE = 2
"""Levels between two such checks."""
BLOCK = 64
"""Rows that stay in a cache while all trees pass."""
SUM, LEAST, LARGEST = 0, 1, 2
"""Ways to aggregate the weights of an output."""
ML = "ai.onnx.ml"
INPUTS = frozenset({"float32", "float64", "int32", "int64"})


@native
@extents(x="count", y="count")
def keys(x: Ptr, y: Ptr, count: int, infinity: int, nan: int, part: int, parts: int) -> int:
    """y = integers in the order of x, floats given as their bits: see tree_tables.order_keys."""
    for i in span(count, part, parts):
        magnitude = x[i] & nan
        key = -magnitude if x[i] < 0 else magnitude
        y[i] = nan if magnitude > infinity else key
    return OK


class ForestShape(NamedTuple):
    """The sizes and the form of an ensemble: see `tree_tables.Forest`."""

    features: int
    trees: int
    inner: int
    """The number of nodes that are not leaves."""
    levels: int
    outputs: int
    nan: int
    """The key of NaN."""
    missing: StaticInt
    """1: NaN is low for features below zero."""
    leaf: StaticInt
    """ONE, ALL or SOME weights."""
    aggregate: StaticInt
    """SUM, LEAST or LARGEST."""


class Leaves(NamedTuple):
    """The weights of leaves: `nodes` once more, as floats, or tables of targets and weights from `starts` on."""

    nodes: Ptr
    starts: Ptr
    targets: Ptr
    weights: Ptr


@native
def descend(x: Ptr, nodes: Ptr, at: Ptr, begin: Ptr, g: ForestShape, one: Static) -> None:
    """at[:GROUP] = the leaves at which rows arrive from the roots at[:GROUP]; rows begin at x[begin], or all at x if `one`."""
    for level in range(g.levels):
        if level >= SHALLOW and level % STRIDE == 0:
            waiting = 0
            for t in range(GROUP):
                waiting += 1 if at[t] < g.inner else 0
            if waiting == 0:
                break
        for t in range(GROUP):
            node = shift(nodes, at[t] * 4)
            feature = node[0]
            start = 0 if one else begin[t]
            if g.missing:
                key = x[start + (~feature if feature < 0 else feature)]
                high = key > node[1] and not (feature < 0 and key == g.nan)
            else:
                high = x[start + feature] > node[1]
            at[t] = node[3 if high else 2]


@native
def trees_in_step(trees: int, rows: int) -> int:
    """Return how many of the remaining trees go in step: GROUP, FEW or one."""
    if trees > GROUP // 2 or (rows < GROUP // FEW and trees > FEW):
        return GROUP
    return FEW if trees > 1 else 1


@native
def collect(leaves: Leaves, at: Ptr, sums: Ptr, seen: Ptr, count: int, g: ForestShape) -> None:
    """Add the weights of the leaves at[:count] to the sums of a row."""
    inner, outputs, leaf, aggregate = g.inner, g.outputs, g.leaf, g.aggregate
    if leaf == ONE and aggregate == SUM and outputs == 1:
        total = sums[0]
        for t in range(count):
            total = total + leaves.nodes[at[t] * 4 + 3]
        sums[0], seen[0] = total, like(seen, 1)
        return
    for t in range(count):
        number = at[t] - inner
        if leaf == ONE:
            gather_weight(sums, seen, leaves.targets[number] if outputs > 1 else 0, leaves.nodes[at[t] * 4 + 3], aggregate)
        elif leaf == ALL:
            for k in range(outputs):
                gather_weight(sums, seen, k, leaves.weights[number * outputs + k], aggregate)
        else:
            for k in range(leaves.starts[number], leaves.starts[number + 1]):
                gather_weight(sums, seen, leaves.targets[k], leaves.weights[k], aggregate)


@native
def gather_weight(sums: Ptr, seen: Ptr, i: int, weight: float, aggregate: Static) -> None:
    """Add a weight to sums[i], or make it the least or largest so far."""
    if aggregate == SUM:
        sums[i] = sums[i] + weight
    elif aggregate == LEAST:
        sums[i] = weight if seen[i] == 0 or weight < sums[i] else sums[i]
    else:
        sums[i] = weight if seen[i] == 0 or weight > sums[i] else sums[i]
    seen[i] = like(seen, 1)


@native
@extents(
    x="rows * g.features",
    nodes="given",
    leaves="given",
    roots="ceildiv(g.trees, GROUP) * GROUP",
    starts="given",
    targets="given",
    weights="given",
    ways="parts * 2 * GROUP",
    sums="rows * g.outputs",
    seen="rows * g.outputs",
)
def walk(
    x: Ptr,
    nodes: Ptr,
    leaves: Ptr,
    roots: Ptr,
    starts: Ptr,
    targets: Ptr,
    weights: Ptr,
    ways: Ptr,
    sums: Ptr,
    seen: Ptr,
    rows: int,
    g: ForestShape,
    part: int,
    parts: int,
) -> int:
    """sums (rows, outputs) = the sum, least or largest of the weights at the leaves; seen (rows, outputs) = 1 if there was any.

    `leaves` are the nodes once more, as floats. Behind the last root are roots that are leaves. Nothing is compared here:
    `tree_tables.forest` has seen that all numbers in the tables are nodes, leaves and features, and that `levels` steps lead to
    leaves; `_forest` that targets are below `outputs`.
    """
    features, trees, outputs = g.features, g.trees, g.outputs
    tables = Leaves(leaves, starts, targets, weights)
    first, last = rows * part // parts, rows * (part + 1) // parts
    mine = shift(ways, part * 2 * GROUP)
    begin = shift(mine, GROUP)
    for block in range(first, last, BLOCK):
        end = min(block + BLOCK, last)
        for i in range(block * outputs, end * outputs):
            sums[i] = like(sums, 0)
            seen[i] = like(seen, 0)
        tree = 0
        while tree < trees:
            width = trees_in_step(trees - tree, end - block)
            count, together = min(width, trees - tree), GROUP // width
            for row in range(block, end, together):
                if width == GROUP:
                    for t in range(GROUP):
                        mine[t] = roots[tree + t]
                    descend(shift(x, row * features), nodes, mine, begin, g, True)
                else:
                    for k in range(together):
                        for t in range(width):
                            mine[k * width + t] = roots[tree + t]
                            begin[k * width + t] = min(row + k, end - 1) * features
                    descend(x, nodes, mine, begin, g, False)
                for k in range(min(together, end - row)):
                    at, to, was = shift(mine, k * width), shift(sums, (row + k) * outputs), shift(seen, (row + k) * outputs)
                    collect(tables, at, to, was, count, g)
            tree += width
    return OK


@native
@extents(sums="rows * outputs", seen="rows * outputs", base="outputs", y="rows * outputs")
def finish(
    sums: Ptr, seen: Ptr, base: Ptr, y: Ptr, rows: int, outputs: int, trees: float, kind: Static, part: int, parts: int
) -> int:
    """y (rows, outputs) = the transformed sums / trees + base (outputs,). Of several outputs one without an addend stays 0."""
    for row in span(rows, part, parts):
        scores, given = shift(sums, row * outputs), shift(seen, row * outputs)
        for k in range(outputs):
            if outputs == 1 or given[k] != 0:
                scores[k] = scores[k] / like(sums, trees) + base[k]
        transform(scores, outputs, kind)
        for k in range(outputs):
            y[row * outputs + k] = like(y, scores[k])
    return OK


class ClassRules(NamedTuple):
    """The numbers of classes and of base values, and facts about weights that affect labels."""

    classes: int
    bases: int
    single: int
    """1 if all weights are of one class."""
    positive: int
    """1 if no weight is below zero."""


@native
@extents(
    sums="rows * g.classes",
    seen="rows * g.classes",
    base="g.bases",
    labels="max(g.classes, 2 * g.single)",
    label="rows",
    z="rows * g.classes",
)
def classify(
    sums: Ptr,
    seen: Ptr,
    base: Ptr,
    labels: Ptr,
    label: Ptr,
    z: Ptr,
    rows: int,
    g: ClassRules,
    kind: Static,
    part: int,
    parts: int,
) -> int:
    """label (rows,) = the label of the largest sum, z (rows, classes) = the transformed sums; `decide` serves up to two classes."""
    classes, bases = g.classes, g.bases
    for row in span(rows, part, parts):
        scores, given, out = shift(sums, row * classes), shift(seen, row * classes), shift(z, row * classes)
        if classes > 2:
            best = -1
            for k in range(classes):
                if bases == classes:
                    scores[k] = scores[k] + base[k]
                if (given[k] != 0 or bases == classes) and (best < 0 or scores[k] > scores[best]):
                    best = k
            label[row] = labels[max(best, 0)]
            transform(scores, classes, kind)
            for k in range(classes):
                out[k] = like(out, scores[k])
        else:
            decide(scores, given, base, labels, shift(label, row), out, g, kind)
    return OK


@native
def decide(scores: Ptr, given: Ptr, base: Ptr, labels: Ptr, label: Ptr, out: Ptr, g: ClassRules, kind: Static) -> None:
    """label, out = the label and scores of one or two classes, by onnxruntime's rules: a single sum becomes two scores."""
    classes, bases, single, positive = g
    one, zero = like(scores, 1), like(scores, 0)
    count, sign = classes, 3 if classes == 2 and bases == 0 else -1
    first = scores[0]
    second = scores[1] if classes == 2 else zero
    both = classes == 2 and given[1] != 0
    if bases == 2 and (classes == 1 or both):
        second = base[1] + first
        first = -second
        both = True
    elif bases > 0:
        first = first + base[0]
    if classes == 2:
        first = first if given[0] != 0 else zero
        count = 1 if bases < 2 and not both else 2
    chosen = second if both else first
    if single != 0 and positive != 0:
        label[0] = labels[1] if chosen > like(scores, 0.5) else labels[0]
        sign = 0
    elif single != 0:
        label[0] = labels[1] if chosen > zero else labels[0]
        sign = 2
    else:
        label[0] = 1 if chosen > zero else 0
    if count == 2:
        scores[0], scores[1] = first, second
        transform(scores, 2, kind)
        first, second = scores[0], scores[1]
    elif kind == "PROBIT":
        first, second = like(first, probit(cast(first, "f32"))), zero
    elif sign >= 0 and kind == "LOGISTIC":
        first, second = like(first, logistic(cast(-first, "f32"))), like(first, logistic(cast(first, "f32")))
    elif sign == 0:
        first, second = one - first, first
    elif sign > 0:
        first, second = -first, first
    else:
        second = zero
    out[0] = like(out, first)
    if classes == 2:
        out[1] = like(out, second)


# --- Operators
@operator("TreeEnsembleClassifier", domain=ML, types=INPUTS)
def tree_ensemble_classifier(op: NodeLowering) -> None:
    """Map (N, C) to labels (N,) and scores (N, classes). Spec: ONNX-ML TreeEnsembleClassifier-3."""
    labels = Labels(op, "classlabels_strings", "classlabels_int64s")
    classes = len(labels)
    x, dtype = _input(op)
    trees = _forest(op, lambda: nodes_by_id(op, "class", dtype), classes)
    rows, sums, seen = _walk(op, x, trees, classes, SUM)
    base = floats(op, "base_values", dtype)
    if len(base) not in {0, classes, *((1, 2) if classes <= 2 else ())}:
        raise op.reject(f"there are {len(base)} base_values for {classes} classes")
    single = int(classes == 2 and len(np.unique(ints(op, "class_ids"))) == 1)
    positive = int((floats(op, "class_weights", dtype) >= 0).all())
    label, z = labels.output(rows), scores_output(op, rows, classes)
    operands, rules = [sums, seen, op.array(base), labels.table, label, z], ClassRules(classes, len(base), single, positive)
    op.emit(classify, operands, rows=rows, g=rules, kind=kind_of(op), work=rows * classes * 10)
    labels.finish(label)


@operator("TreeEnsembleRegressor", domain=ML, types=INPUTS)
def tree_ensemble_regressor(op: NodeLowering) -> None:
    """Map (N, C) to (N, targets). Spec: ONNX-ML TreeEnsembleRegressor-3."""
    x, dtype = _input(op)
    targets = op.attr("n_targets", 1)
    trees = _forest(op, lambda: nodes_by_id(op, "target", dtype), targets)
    _regress(op, x, trees, targets, op.attr("aggregate_function", "SUM"), kind_of(op), floats(op, "base_values", dtype))


@operator("TreeEnsemble", domain=ML, since=5, types=REAL)
def tree_ensemble(op: NodeLowering) -> None:
    """Map (N, C) to (N, targets). Spec: ONNX-ML TreeEnsemble-5."""
    x, dtype = _input(op)
    targets, aggregate, kind = op.attr("n_targets", 1), op.attr("aggregate_function", 1), op.attr("post_transform", 0)
    if aggregate not in range(4) or kind not in range(len(TRANSFORMS)):
        raise op.reject(f"aggregate_function {aggregate}, post_transform {kind}")
    trees = _forest(op, lambda: nodes_by_position(op, dtype), targets)
    _regress(op, x, trees, targets, ("AVERAGE", "SUM", "MIN", "MAX")[aggregate], TRANSFORMS[kind], np.empty(0, dtype))


def _input(op: NodeLowering) -> tuple[Tensor, Any]:
    """Return the rows, and the type of thresholds and sums: float64 for float64 rows, else float32."""
    x = op.raw(0)
    x = op.input(0) if x.dtype in REAL else op.store(op.cast(x, "float32"))
    return x, to_numpy(x.dtype)


def _forest(op: NodeLowering, parse: Callable[[], Trees], outputs: int) -> Forest:
    try:
        made = forest(parse(), outputs, GROUP)
    except ValueError as error:
        raise op.reject(str(error)) from None
    if outputs < 1 or made.targets.min(initial=0) < 0 or made.targets.max(initial=0) >= outputs:
        raise op.reject(f"weights should be of targets or classes 0 to {outputs - 1}")
    return made


def _walk(op: NodeLowering, x: Tensor, trees: Forest, outputs: int, aggregate: int) -> tuple[Dim, Tensor, Tensor]:
    """Emit `walk`. Returns the number of rows, their sums, and a flag for each sum that is 1 if it has an addend."""
    rows: Dim = 1 if len(x.shape) == 1 else x.shape[0]
    features = x.shape[-1]
    op.require(less(trees.features - 1, features), "rows have {0} features, the trees ask for {1}", features, trees.features)
    integer = {"float32": "int32", "float64": "int64"}[x.dtype]
    nan = int(np.iinfo(integer).max)
    keyed = op.temporary(integer, x.shape)
    infinity = int(np.array(np.inf, x.dtype).view(integer))
    op.emit(keys, [reread(x, integer, x.shape), keyed], count=x.size, infinity=infinity, nan=nan, work=x.size // 2)
    nodes = op.table(trees.nodes)
    places = [array[:0] if trees.leaf == ALL else array for array in (trees.starts, trees.targets)]
    roots, *tables = (op.table(array) for array in (trees.roots, *places, trees.weights))
    at = op.temporary("int64", (op.most_parts * 2 * GROUP,))
    sums, seen = op.temporary(x.dtype, (rows, outputs)), op.temporary("bool", (rows, outputs))
    operands = [keyed, nodes, reread(nodes, x.dtype, nodes.shape), roots, *tables, at, sums, seen]
    given = zip(("nodes", "leaves", "starts", "targets", "weights"), (nodes, nodes, *tables), strict=True)
    touched = {name: table.size for name, table in given}
    sizes: Any = (features, trees.count, trees.inner, trees.levels, outputs, nan, int(trees.missing), trees.leaf, aggregate)
    work = rows * (trees.count * (trees.levels + 2))
    op.emit(walk, operands, rows=rows, g=ForestShape(*sizes), work=work, touched=touched)
    return rows, sums, seen


def _regress(op: NodeLowering, x: Tensor, trees: Forest, targets: int, aggregate: str, kind: str, base: Array) -> None:
    function = {"SUM": SUM, "AVERAGE": SUM, "MIN": LEAST, "MAX": LARGEST}.get(aggregate)
    if function is None:
        raise op.reject(f"aggregate_function {aggregate!r}; it should be AVERAGE, SUM, MIN or MAX")
    if len(base) not in (0, targets):
        raise op.reject(f"there are {len(base)} base_values for {targets} targets")
    rows, sums, seen = _walk(op, x, trees, targets, function)
    divisor = float(max(trees.count, 1)) if aggregate == "AVERAGE" else 1.0
    y = op.output(0)
    constant = op.array(base if len(base) else np.zeros(targets, to_numpy(x.dtype)))
    applied = kind if targets > 1 or kind == "PROBIT" else "NONE"
    op.emit(finish, [sums, seen, constant, y], rows=rows, outputs=targets, trees=divisor, kind=applied, work=rows * targets * 8)
