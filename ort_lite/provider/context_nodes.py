"""EPContext nodes, which represent compiled partitions (see `ort_lite.session.context`)."""

from collections.abc import Collection, Sequence

from ort_lite.graph.graph import Node, Value

DOMAIN, OPERATOR = "com.microsoft", "EPContext"
BYTES = ("utf-8", "surrogateescape")
"""The arguments of `encode` and `decode` that convert a context's bytes to a text attribute."""


def is_context(node: Node) -> bool:
    """Return True for an EPContext node."""
    return node.op_type == OPERATOR and node.domain == DOMAIN


def owner_of(node: Node, labels: Sequence[str]) -> tuple[str, str]:
    """Return the label of the provider that gets the node and "", or "" and the reason why no provider does.

    Of several instances, it is the one whose number starts the node's `partition_name`. A name of another form, which other
    software may have written, means the first instance.
    """
    source = node.attr("source", "")
    if not isinstance(source, str) or source not in labels:
        return "", f"it was compiled by {source or 'somebody who is not named'}"
    wanted = str(node.attr("partition_name", "")).rpartition("_")[0]
    name, _, number = wanted.partition("#")
    if name != source or not number.isdigit():
        return source, ""
    return (wanted, "") if wanted in labels else ("", f"it was compiled by {wanted}: instance {number}, which is not here")


_HOST = ("host inputs", "host outputs")


def note_host_values(inputs: Sequence[Value], outputs: Sequence[Value], host_values: Collection[Value]) -> str:
    """Return the positions of a partition's host values for the attribute `notes` of its EPContext node; "" if there are none."""
    if not host_values:
        return ""
    places = [" ".join(str(k) for k, value in enumerate(side) if value in host_values) for side in (inputs, outputs)]
    return "; ".join(f"{kind} {found}" for kind, found in zip(_HOST, places, strict=True) if found)


def host_note(node: Node) -> str:
    """Return the part of a node's `notes` that `note_host_values` wrote, or ""."""
    return "; ".join(part for part in str(node.attr("notes", "")).split("; ") if part.startswith(_HOST))


def saved_host_places(node: Node) -> tuple[frozenset[int], frozenset[int]]:
    """Return the positions of host values among the inputs and among the outputs of an EPContext node."""
    found = {kind: frozenset[int]() for kind in _HOST}
    for part in filter(None, host_note(node).split("; ")):
        kind = next(kind for kind in _HOST if part.startswith(kind))
        found[kind] = frozenset(int(place) for place in part.removeprefix(kind).split() if place.isdecimal())
    return found[_HOST[0]], found[_HOST[1]]


def saved_host_values(node: Node) -> frozenset[Value]:
    """Return the host values of a saved partition. A value that it also takes on the device is not one of them."""
    inputs, outputs = saved_host_places(node)
    on_device = {value for k, value in enumerate(node.inputs) if k not in inputs}
    values = [value for k, value in enumerate(node.inputs) if k in inputs and value not in on_device]
    values += [value for k, value in enumerate(node.outputs) if k in outputs]
    return frozenset(value for value in values if value is not None and value.constant is None)
