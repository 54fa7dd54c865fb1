"""Random valid models, generated from operator schemas and shape rules.

A `ModelGenerator` adds node after node to a `Draft`. The recipe of an operator (`recipes/`) draws attributes and operands, the
shape rules compute the outputs, and `Coverage` chooses the operator version and element type that is due next.
"""

from ort_lite.testing.generator.coverage import Coverage
from ort_lite.testing.generator.generate import GeneratedModel, ModelGenerator
from ort_lite.testing.generator.recipe import recipes
from ort_lite.testing.generator.targets import GenerationTarget, targets

__all__ = ["Coverage", "GeneratedModel", "GenerationTarget", "ModelGenerator", "recipes", "targets"]
