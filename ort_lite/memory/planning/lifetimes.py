"""Lifetimes of tensors, and classes of tensors that share bytes. Operator indices are inclusive, as in `MemoryPlan`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ort_lite.errors import InvalidArgument

TensorId = str


@dataclass(slots=True)
class TensorLifetime:
    """The operators from the first that defines or uses a tensor to the last that uses it, both inclusive."""

    tensor_id: TensorId
    start_op: int
    end_op: int

    def __post_init__(self) -> None:
        if self.start_op > self.end_op:
            raise InvalidArgument(
                f"TensorLifetime {self.tensor_id!r}: start_op {self.start_op} comes after end_op {self.end_op}; "
                "expected the first operator, then the last (the same for a tensor of one operator)"
            )

    def __str__(self) -> str:
        return f"ops {self.start_op} to {self.end_op}"

    def add_op(self, op_idx: int) -> None:
        """Extend the lifetime to include this operator."""
        self.start_op = min(self.start_op, op_idx)
        self.end_op = max(self.end_op, op_idx)

    def merge(self, other: "TensorLifetime") -> None:
        """Extend the lifetime to include another one, as for aliases. Keeps the tensor_id."""
        self.add_op(other.start_op)
        self.add_op(other.end_op)

    def half_open(self) -> tuple[int, int]:
        """Return (start, end) with end exclusive, as the packing kernels expect. All conversions happen here."""
        return self.start_op, self.end_op + 1


@dataclass(frozen=True, slots=True)
class AliasClass:
    """Tensors that share one slot, as large as the largest of them and in use while any of them is."""

    members: tuple[TensorId, ...]
    lifetime: TensorLifetime
    size: int


def alias_classes(
    sizes: Mapping[TensorId, int],
    lifetimes: Mapping[TensorId, TensorLifetime],
    groups: Iterable[Iterable[TensorId]] = (),
) -> list[AliasClass]:
    """Return the alias classes: each tensor of `sizes` is in exactly one, alone if it is in no group.

    Groups that share a tensor form one class (Reshape of a Reshape). Classes and members are in the order of `sizes`; the first
    member names the class's lifetime. Does not change `lifetimes`. Near-linear in the number of tensors and group members. Raises
    InvalidArgument for a tensor without size or lifetime.
    """
    parent = {tensor: tensor for tensor in sizes}
    for group in groups:
        roots = [_root(_require(tensor, sizes, "size"), parent) for tensor in group]
        for root in roots[1:]:
            parent[root] = roots[0]
    members: dict[TensorId, list[TensorId]] = {}
    for tensor in sizes:
        members.setdefault(_root(tensor, parent), []).append(tensor)
    return [_merge(group, sizes, lifetimes) for group in members.values()]


def _merge(group: list[TensorId], sizes: Mapping[TensorId, int], lifetimes: Mapping[TensorId, TensorLifetime]) -> AliasClass:
    lifetime = replace(lifetimes[_require(group[0], lifetimes, "lifetime")])
    for tensor in group[1:]:
        lifetime.merge(lifetimes[_require(tensor, lifetimes, "lifetime")])
    return AliasClass(tuple(group), lifetime, max(sizes[tensor] for tensor in group))


def _root(tensor: TensorId, parent: dict[TensorId, TensorId]) -> TensorId:
    while parent[tensor] != tensor:
        parent[tensor] = parent[parent[tensor]]
        tensor = parent[tensor]
    return tensor


def _require(tensor: TensorId, table: Mapping[TensorId, object], what: str) -> TensorId:
    if tensor not in table:
        raise InvalidArgument(f"tensor {tensor!r} has no {what}, expected one for every tensor that is planned")
    return tensor
