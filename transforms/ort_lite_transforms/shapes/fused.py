"""Operators of com.microsoft that fusions make, apart from the others of that domain: most models have some after the claim.

Sources: onnxruntime's contrib operator documentation.
"""

from functools import partial

from ort_lite.inference import Info, Op, ShapeRule, shape_rule
from ort_lite_transforms.shapes.conv import conv
from ort_lite_transforms.shapes.elementwise import like
from ort_lite_transforms.shapes.matmul import gemm

microsoft_rule = partial(shape_rule, domain="com.microsoft")


def also(rules: list[ShapeRule], *op_types: str) -> list[ShapeRule]:
    """The rule of a standard operator, for operators here that have its shape."""
    rule = rules[0]
    return [ShapeRule(name, 1, "com.microsoft", rule.function, rule.types) for name in op_types or (rule.op_type,)]


@microsoft_rule("Gelu", "QuickGelu")
def gelu(op: Op) -> list[Info]:
    """y like x."""
    return [like(op)]


RULES = [*also(conv, "FusedConv"), *also(gemm, "FusedGemm"), *gelu]
