"""The device that reads each input of a session, as an OrtEpDevice."""

from ort_lite.compat.ep_devices import OrtEpDevice, get_ep_devices
from ort_lite.graph.graph import Node
from ort_lite.partition.assignment import Assignment
from ort_lite.session.prepare import Prepared


def input_devices(prepared: Prepared) -> list[OrtEpDevice | None]:
    """Return the device of the first node that reads each input, bodies included; None if unused. O(inputs + devices)."""
    assignment = prepared.assignment
    known = get_ep_devices()
    readers = [next((node for node, _ in value.uses), None) for value in prepared.model.graph.inputs]
    return [None if node is None else _device_of(assignment, node, known) for node in readers]


def _device_of(assignment: Assignment, node: Node, known: list[OrtEpDevice]) -> OrtEpDevice | None:
    provider = assignment.providers[assignment.of(node).provider]
    return next((each for each in known if each.ep_name == provider.name and each.place == provider.device), None)
