"""The outputs of a partition that its programs may compute in the memory of inputs."""

from collections.abc import Mapping, Sequence

from ort_lite.graph import Value
from ort_lite.provider import Partition
from ort_lite.shapes import Call, Dim, atoms, substitute
from ort_lite_xla.padding import Padding

Shape = tuple[int, ...]


def find_aliases(partition: Partition) -> dict[int, int]:
    """Return an input for each output that has its type, or may have it, both in order, as XLA assigns them."""
    left = [k for k, value in enumerate(partition.inputs) if value not in partition.host_values and value.shape is not None]
    found: dict[int, int] = {}
    for fits in (_has_type, _may_have_type):
        for k, value in enumerate(partition.outputs):
            if k in found or value in partition.host_values:
                continue
            same = next((i for i in left if fits(value, partition.inputs[i])), None)
            if same is not None:
                found[k] = same
                left.remove(same)
    return dict(sorted(found.items()))


def usable_aliases(
    partition: Partition, aliases: Mapping[int, int], shapes: Sequence[Shape], sizes: Mapping[str, int], plan: Padding
) -> frozenset[int]:
    """Return the inputs among `aliases` that have the shapes of their outputs, and no dimension that is padded.

    So a bucket has one answer for all of its sizes. `shapes` are those of the inputs, `sizes` those of their symbols.
    """
    found = set()
    for output, given in aliases.items():
        made, source = partition.outputs[output], partition.inputs[given]
        if plan.buckets and (any(plan.outputs[output]) or any(str(dim) in plan.buckets for dim in source.shape or ())):
            continue
        if _has_type(made, source) or tuple(substitute(dim, sizes) for dim in made.shape or ()) == shapes[given]:
            found.add(given)
    return frozenset(found)


def _has_type(output: Value, given: Value) -> bool:
    return output.type == given.type


def _may_have_type(output: Value, given: Value) -> bool:
    """Return True if the dimensions are equal, or one is the maximum of the other: the rows of a cache that may have room."""
    made, taken = output.shape, given.shape
    if output.dtype != given.dtype or made is None or taken is None or len(made) != len(taken):
        return False
    return all(map(_may_be, made, taken))


def _may_be(dim: Dim, other: Dim) -> bool:
    return dim == other or any(isinstance(atom, Call) and atom.op == "max" and other in atom.args for atom in atoms([dim]))
