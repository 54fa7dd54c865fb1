"""Traits of operators by name, for tests that draw nodes or sort them."""

from ort_lite.graph import Node
from ort_lite.inference.traits import Traits
from ort_lite_transforms.schemas import FILES, traits

NEWEST = 1 << 20


def traits_of(op_type: str, domain: str = "") -> Traits:
    """The traits of the newest version of an operator."""
    return traits(Node(op_type, [], [], domain=domain, version=NEWEST))


def operators_with(trait: str, domain: str = "") -> list[str]:
    """The operators of a domain whose newest version states the trait, sorted."""
    names = {op_type for file in FILES for found, op_type in file.operators() if found == domain}
    return sorted(name for name in names if getattr(traits_of(name, domain), trait) not in (False, None))


__all__ = ["operators_with", "traits_of"]
