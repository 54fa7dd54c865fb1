"""Cases of operators that ONNX has no schema of, nearly all com.microsoft's, as the generator's recipes draw them.

Nothing here says what is right.
"""

from collections.abc import Iterator
from typing import Any

import onnx

from ort_lite.testing.generated import Cases, GeneratedCase
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.schemas import schemas

EACH, ATTEMPTS = 4, 24
"""Cases of an operator, and models that are drawn for them."""


def cases() -> Iterator[Case]:
    """A few cases of each operator, of different types where it has some."""
    drawn, known = Cases(), {key[:2] for key in schemas()}
    for domain, op_type in drawn.operators:
        if (domain, op_type) not in known:
            targets, found = drawn.targets(domain, op_type), 0
            targets = targets[:: -(-len(targets) // EACH)]
            for number in range(ATTEMPTS):
                one = drawn.alone("attributes", targets[number % len(targets)], number)
                if one is not None and found < EACH:
                    found += 1
                    yield _case(domain, one)


def _case(domain: str, one: GeneratedCase) -> Case:
    (node,), arrays = one.nodes, {**one.constants, **one.feeds[0]}
    constants = tuple(index for index, name in enumerate(node.input) if name in one.constants)
    attributes = {attribute.name: _plain(onnx.helper.get_attribute_value(attribute)) for attribute in node.attribute}
    inputs = [arrays[name] if name else None for name in node.input]
    outputs = [bool(name) for name in node.output]
    return case(node.op_type, *inputs, domain=domain, constants=constants, outputs=outputs, types=(), **attributes)


def _plain(value: Any) -> Any:
    """Text as str."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value
