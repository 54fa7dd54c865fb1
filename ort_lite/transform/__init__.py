"""The contract of a transform, and the stage that runs them."""

from ort_lite.inference.schema import NHWC_DOMAIN
from ort_lite.transform.contract import (
    LEVELS,
    CastInsertion,
    GraphPass,
    LayoutConversion,
    LocalRule,
    OlderForm,
    Transform,
    all_graphs,
    graph_pass,
    rule,
)
from ort_lite.transform.patterns import Match, Pattern, constant, op
from ort_lite.transform.rewriter import FOLD_LIMIT, Done, Rewriter, Skip, clash, same_info

__all__ = [
    "FOLD_LIMIT",
    "LEVELS",
    "NHWC_DOMAIN",
    "CastInsertion",
    "Done",
    "GraphPass",
    "LayoutConversion",
    "LocalRule",
    "Match",
    "OlderForm",
    "Pattern",
    "Rewriter",
    "Skip",
    "Transform",
    "all_graphs",
    "clash",
    "constant",
    "graph_pass",
    "op",
    "rule",
    "same_info",
]
