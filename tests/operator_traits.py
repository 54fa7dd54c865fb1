"""Traits of operators by name, for tests that draw nodes or sort them."""

from ort_lite.graph import Node
from ort_lite.inference.traits import Traits
from ort_lite_transforms.schemas import traits

NEWEST = 1 << 20


def traits_of(op_type: str, domain: str = "") -> Traits:
    """The traits of the newest version of an operator."""
    return traits(Node(op_type, [], [], domain=domain, version=NEWEST))


__all__ = ["traits_of"]
