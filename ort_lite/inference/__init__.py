"""Shape inference and operator schemas: the contract of both, and what checks and annotates a graph."""

from ort_lite.inference.inference import Inference, declared_info, info_from_declaration
from ort_lite.inference.shape_rules import (
    CONTENTS_LIMIT,
    UNKNOWN,
    ContentsUnknown,
    Info,
    NumbersUnknown,
    Op,
    OutputType,
    RankUnknown,
    Rule,
    RuleFamily,
    ShapeRule,
    ShapeRules,
    constant_info,
    shape_rule,
)
from ort_lite.shapes.broadcast import broadcast, merge

__all__ = [
    "CONTENTS_LIMIT",
    "UNKNOWN",
    "ContentsUnknown",
    "Inference",
    "Info",
    "NumbersUnknown",
    "Op",
    "OutputType",
    "RankUnknown",
    "Rule",
    "RuleFamily",
    "ShapeRule",
    "ShapeRules",
    "broadcast",
    "constant_info",
    "declared_info",
    "info_from_declaration",
    "merge",
    "shape_rule",
]
