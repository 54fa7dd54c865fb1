"""Programs of bodies that are created ahead of the run that calls them."""

from collections.abc import Mapping
from contextlib import suppress

from ort_lite.errors import OrtLiteError
from ort_lite.graph import Graph
from ort_lite.provider import Body
from ort_lite.provider.abilities import prepares_calls


def prepare_bodies(bodies: Mapping[Graph, Body]) -> None:
    """Create the programs of bodies. What cannot be created now is an error of the run that calls it, if one ever does."""
    for body in bodies.values():
        for step in body.steps:
            if prepares_calls(step.function):
                with suppress(OrtLiteError, MemoryError):
                    step.function.prepare_calls()
