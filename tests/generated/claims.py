"""The targets that the CPU provider claims."""

from functools import cache

from ort_lite.errors import OrtLiteError
from ort_lite.graph import Model, Node
from ort_lite.options import SessionOptions
from ort_lite.pipeline.pipeline import assigned
from ort_lite.plugins import fusions, shape_rules, transforms
from ort_lite.testing.generator import Generator, Target, recipes, targets
from ort_lite_cpu.provider import CPUExecutionProvider


@cache
def claimed_targets() -> tuple[Target, ...]:
    """Every operator version with a schema, with each element type that the provider runs it in. Takes 3 s, once a process."""
    schemas, provider, options = shape_rules().schemas, CPUExecutionProvider(), SessionOptions()

    def claims(node: Node) -> bool:
        assert node.graph is not None
        try:
            assigned(Model(graph=node.graph, opset_imports={}), [provider], options)
        except OrtLiteError:
            return False
        return True

    return tuple(targets(schemas, schemas.operators(), claims))


def generator(seed: int = 0) -> Generator:
    """A generator of models that the CPU provider runs, with nodes that transforms look for."""
    rewrites = [*transforms(), *fusions()]
    return Generator(shape_rules(), claimed_targets(), recipes(), seed, rewrites)
