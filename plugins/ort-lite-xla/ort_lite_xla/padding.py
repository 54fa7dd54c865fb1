"""Padding to buckets: which dimensions of a partition may be padded, and what must be masked for it.

A new length must not cost a compilation. An open dimension n is rounded up to a bucket: 1, 2, 3, 4, 6, 8, 12, 16, 24, ... The
inputs are padded, the program runs at the bucket's size, and the results are cut back. That is correct only if every node
keeps the true elements apart from the others. The rules in `along` prove that for each node. Softmax, sums and products
along the dimension use masks, which take the true size as an operand of the program. A dimension for which the proof fails
is not padded: each of its sizes then gets its own program.
"""

from collections.abc import Iterable, Mapping, Sequence

from ort_lite.graph import Node, Value
from ort_lite.inference import Inference, Info
from ort_lite.provider import Partition
from ort_lite.record import Record
from ort_lite.shapes import Call, Dim, as_symbol, atoms, evaluate, symbols
from ort_lite_xla.along import Mixed, PaddedDims, Sizes
from ort_lite_xla.contents import SIZES
from ort_lite_xla.registry import PaddingMask, find
from ort_lite_xla.trace import Guard

SEARCHED = 4096
"""The largest bucket for which an expression in a size is compared with the size itself, for all sizes of the bucket."""


def bucket(size: int) -> int:
    """Return the next of 1, 2, 3, 4, 6, 8, 12, 16, ...: at most a third of the elements are padding."""
    if size < 4:
        return size
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if size <= power * 3 // 4 else power


def _smallest(top: int) -> int:
    """Return the smallest size in the bucket that ends at `top`."""
    return next(size for size in range(top * 2 // 3, top + 1) if bucket(size) == top)


class Padding(Record):
    """The padded parts: symbols with their buckets, Guards of nodes, and the symbol of each dimension of each output."""

    buckets: Mapping[str, int]
    guards: Mapping[Node, Sequence[Guard]]
    outputs: tuple[tuple[str | None, ...], ...]


def input_sizes(inputs: Sequence[Value], shapes: Sequence[tuple[int, ...]]) -> dict[str, int] | None:
    """Return the sizes of the symbols that are dimensions of inputs.

    Returns None if a symbol has two sizes, or a shape is not as inferred.
    """
    found: dict[str, int] = {}
    for value, shape in zip(inputs, shapes, strict=True):
        if value.shape is None or len(value.shape) != len(shape):
            return None
        for dim, size in zip(value.shape, shape, strict=True):
            name = None if isinstance(dim, int) else as_symbol(dim)
            if (isinstance(dim, int) and dim != size) or (name is not None and found.setdefault(name.name, size) != size):
                return None
    return found


def size_contents(partition: Partition) -> dict[Value, frozenset[str]]:
    """Return, for values whose contents are known in terms of sizes, the symbols that occur there. O(nodes)."""
    inference = Inference(partition.rules, {value: Info(value.type) for value in partition.inputs})
    found = {}
    for node in partition.nodes:
        for value, info in zip(node.outputs, inference.node(node), strict=True):
            if value is not None and info.contents is not None:
                found[value] = frozenset(symbol.name for symbol in symbols(info.contents))
    return found


def padding(partition: Partition, told: Mapping[Value, frozenset[str]], sizes: Mapping[str, int]) -> Padding:
    """Return the padding that is proved correct for these sizes. O(nodes * symbols).

    It is the same for all sizes of the same buckets, unless symbols cannot be padded together: then the largest one that is as
    large as its bucket is left alone first. `told` is the result of `size_contents`.
    """
    padded = {name: top for name, size in sizes.items() if _smallest(top := bucket(size)) < top}
    while padded:
        try:
            return _Analysis(padded, sizes, told).run(partition)
        except _Unpaddable as refused:
            together = refused.names & padded.keys()
            exact = [name for name in together if sizes[name] == padded[name]]
            dropped = {max(exact, key=sizes.__getitem__)} if exact else together
            padded = {name: top for name, top in padded.items() if name not in dropped}
    return Padding({}, {}, tuple(() for _ in partition.outputs))


class _Unpaddable(Exception):
    """An error: these symbols cannot be padded."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)


class _Analysis:
    """One attempt with a set of padded symbols. Raises _Unpaddable with those that must not be padded."""

    def __init__(self, padded: Mapping[str, int], sizes: Mapping[str, int], told: Mapping[Value, frozenset[str]]) -> None:
        self.padded, self.sizes, self.told = padded, sizes, told
        self.seen: dict[Value, Sizes] = {}
        self.taints: dict[Value, frozenset[str]] = {}
        self.tellers: set[Value] = set()
        self.dims: dict[Dim, int | str] = {}

    def run(self, partition: Partition) -> Padding:
        for value in partition.inputs:
            self._input(value)
        guards = {node: found for node in partition.nodes if (found := self._node(node))}
        outputs = partition.outputs
        tainted = {name for value in outputs for name in self.taints.get(value, ())}
        if tainted:
            raise _Unpaddable(tainted)
        ends = tuple(tuple(size if isinstance(size, str) else None for size in self._sizes(value)) for value in outputs)
        return Padding(self.padded, guards, ends)

    def _input(self, value: Value) -> None:
        """Require that padded symbols are whole dimensions of an input, not parts of expressions."""
        for dim in value.shape or ():
            names = {found.name for found in symbols([dim])}
            if not isinstance(dim, int) and as_symbol(dim) is None and names & self.padded.keys():
                raise _Unpaddable(names)
        self._sizes(value)

    def _node(self, node: Node) -> list[Guard]:
        reads = node.reads()
        operands = tuple(None if value is None else self._sizes(value) for value in reads)
        results = tuple(None if value is None else self._sizes(value) for value in node.outputs)
        inside = frozenset(size for sizes in (*operands, *results) for size in sizes or () if isinstance(size, str))
        taints = [self.taints.get(value, frozenset()) if value is not None else frozenset[str]() for value in reads]
        if self._tells_sizes(node, operands, results, taints):
            return []
        involved = inside.union(*taints)
        if not involved:
            return []
        found = find(node)
        assert found is not None, "get_capability declines what has no lowering"
        if any(isinstance(size, str) for k in found.contents for size in (operands[k : k + 1] or [()])[0] or ()):
            raise _Unpaddable(involved)
        if found.along is None:
            raise _Unpaddable(involved)
        tainted = frozenset(k for k, names in enumerate(taints) if names)
        try:
            masks = found.along(PaddedDims(node, operands, results, tainted))
            return [Guard(mask.operand, mask.axis, mask.fill, _symbol(operands, mask)) for mask in masks]
        except Mixed:
            raise _Unpaddable(involved) from None

    def _tells_sizes(
        self, node: Node, operands: Sequence[Sizes | None], results: Sequence[Sizes | None], taints: Sequence[frozenset[str]]
    ) -> bool:
        """Return True if the results are only arithmetic with sizes, so that their contents depend on the padding."""
        if not node.domain and node.op_type in SIZES:
            names = frozenset(size for size in operands[0] or () if isinstance(size, str))
        elif any(isinstance(size, str) for sizes in results for size in sizes or ()):
            return False
        elif all(v is None or v.constant is not None or v in self.tellers for v in node.reads()):
            names = frozenset[str]().union(*taints)
        else:
            return False
        self.tellers.update(value for value in node.outputs if value is not None)
        for value in node.outputs:
            if value is not None and (exact := names & self.told.get(value, names)):
                self.taints[value] = exact
        return True

    def _sizes(self, value: Value) -> Sizes:
        found = self.seen.get(value)
        if found is None:
            shape = value.constant.shape if value.constant is not None else value.shape
            if shape is None:
                raise _Unpaddable(self.padded)
            found = self.seen[value] = tuple(self._dim(dim) for dim in shape)
        return found

    def _dim(self, dim: Dim) -> int | str:
        if isinstance(dim, int):
            return dim
        if dim not in self.dims:
            self.dims[dim] = self._resolve(dim)
        return self.dims[dim]

    def _resolve(self, dim: Dim) -> int | str:
        """Return a number, or the padded symbol that the dimension equals for all sizes of its bucket."""
        names = [found.name for found in symbols([dim])]
        open_names = [name for name in names if name in self.padded]
        if any(name not in self.sizes for name in names):
            raise _Unpaddable(self.padded)
        if not open_names:
            return evaluate(dim, self.sizes)
        (name, *others) = open_names
        single = None if isinstance(dim, int) else as_symbol(dim)
        if single is not None:
            return name
        top = self.padded[name]
        low = _smallest(top)
        if others and any(isinstance(atom, Call) and atom.op == "max" for atom in atoms([dim])):
            raise _Unpaddable([max(open_names, key=self.sizes.__getitem__)])  # a cache with room, which is not copied then
        if others or top - low > SEARCHED:
            raise _Unpaddable(open_names)
        results = [evaluate(dim, {**self.sizes, name: size}) for size in range(low, top + 1)]
        if results == list(range(low, top + 1)):
            return name
        if len(set(results)) > 1:
            raise _Unpaddable(open_names)
        return results[0]


def _symbol(operands: Sequence[Sizes | None], mask: PaddingMask) -> str:
    """Return the symbol whose size the mask needs: that of the dimension that indices refer to, or of the masked one.

    Raises Mixed if this dimension is not padded, although an equal one of another operand is.
    """
    found = (operands[0 if mask.fill.endswith("from end") else mask.operand] or ())[mask.axis]
    if not isinstance(found, str):
        raise Mixed(f"operand {mask.operand} is not padded along dimension {mask.axis}")
    return found
