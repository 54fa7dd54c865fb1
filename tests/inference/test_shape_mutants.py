"""Operands that do not fit each other are refused at load and in runs, as the text of the schemas states: cases come from the text.

`python -m tests.inference.shape_mutants` checks all versions, of which these are a sample.
"""

from collections import Counter

import pytest

from ort_lite.inference.shape_templates import OperandTemplate, parse_templates
from ort_lite.testing.generator import GenerationTarget
from ort_lite_transforms.schemas import FILES
from tests.inference.shape_mutants import CASES, check, findings_at_load, nodes

_ALONG = "dims but that of one axis are equal: a rule compares them"
_COUNT = "how many there are depends on elements: a rule looks at them"
_LAYOUT = "attributes choose among several layouts"
_LOWERED = "a kernel's lowering compares them"
UNRELATED = {
    "BiasSoftmax": "the bias may have any shape that broadcasts from an axis on",
    "BranchwiseRMSNorm": "one scale for all branches, or one a branch, whose number is an attribute",
    "CastLike": "nothing is related: only the type of the second input counts",
    "CausalConvWithState": _LAYOUT,
    "Compress": "a condition may be shorter than the axis",
    "Concat": _ALONG,
    "DequantizeLinear": "one scale, one an element of an axis, or one a block",
    "Einsum": "the equation relates them",
    "FeatureVectorizer": "a vector counts as one row",
    "FusedMatMul": _LAYOUT,
    "GatedAdd": _LOWERED,
    "GatedDeltaNet": "queries, keys and values may be packed together",
    "GatedRMSNorm": _LOWERED,
    "GatherPacked": "rows of bytes are in a format of their own",
    "GatherND": "a rule compares as many dims as batch_dims says",
    "Gradient": "no provider runs it",
    "HyperConnectionPostMix": _LAYOUT,
    "HyperConnectionPreMix": _LAYOUT,
    "IsAllFinite": "nothing is related",
    "MatMulBnb4": "weights are packed",
    "MatMulFpQ4": "weights are packed",
    "MaxRoiPool": "nothing is related: the numbers of images are elements of the regions",
    "MaxpoolWithMask": "no provider runs it",
    "PRelu": "before opset 7 the slope lies along the channels, or is one number",
    "QuantizeLinear": "as DequantizeLinear",
    "Reshape": _COUNT,
    "Resize": _COUNT,
    "Scan": "its body relates them",
    "ScatterND": "a rule compares the dims behind those that indices have",
    "SequenceConstruct": "nothing is related",
    "SequenceMap": "its body relates them",
    "TransposeMatMul": _LAYOUT,
    "Unsqueeze": _COUNT,
}
"""Operators of several inputs that are not related by their text, and why."""
_RUN = (
    "Gemm",
    "BatchNormalization",
    "RoiAlign",
    "TopK",
    "GatherElements",
    "ScatterElements",
    "MatMulInteger",
    "DeformConv",
    "Tile",
)
_RUN_OF_MICROSOFT = ("SkipLayerNormalization", "QLinearAdd", "CDist", "EmbedLayerNormalization")
SAMPLE = [
    CASES.usual(domain, op_type)[0] for domain, names in (("", _RUN), ("com.microsoft", _RUN_OF_MICROSOFT)) for op_type in names
]
"""Versions whose mutants run: small kernels, and each kind of relation."""


def _words(template: OperandTemplate) -> set[str]:
    """The names in a template."""
    found = {factor for limit in (template.low, template.high) if limit for _, factors, _ in limit.terms for factor in factors}
    for form in template.forms:
        found |= {name for _, name in form.names} | {axis.size for axis in form.axes} | {form.run or ""}
        formulas = [*form.formulas, *form.multiples, *((at, one) for at, several in form.choices for one in several)]
        found |= {
            factor for _, formula in formulas for _, factors, divisors in formula.terms for factor in (*factors, *divisors)
        }
    return {word.partition(":")[0] for word in found if word and not word.isdigit()}


def _related(templates: list[OperandTemplate], variadic: bool) -> bool:
    """Return True if a name occurs twice, or an input is limited by itself: one element, an axis, the rank of the first one."""
    counts = Counter(word for template in templates for word in _words(template))
    if variadic and templates:
        counts.update(_words(templates[-1]))
    own = any(one.is_axis or one.low or any(form.one_element for form in one.forms) for one in templates)
    return own or "rank" in counts or max(counts.values(), default=0) > 1


def test_every_tensor_of_every_version_has_a_shape_and_inputs_are_related() -> None:
    unrelated = set()
    for file in FILES:
        for domain, op_type in file.operators():
            for since in file.versions(domain, op_type):
                schema = file.schema(domain, op_type, since)
                stated = parse_templates(schema.shapes)
                tensors = [one for one in schema.inputs.formal if any("(" not in kind for kind in schema.types_of(one))]
                assert [one.name for one in tensors if one.name not in stated] == [], str(schema)
                variadic = bool(tensors) and tensors[-1].option == "variadic"
                if len(tensors) + variadic > 1 and not _related([stated[one.name] for one in tensors], variadic):
                    unrelated.add(op_type)
    assert unrelated == UNRELATED.keys()


@pytest.mark.parametrize(("domain", "op_type"), CASES.operators, ids=str)
def test_mutants_are_refused_at_load(domain: str, op_type: str) -> None:
    for case in nodes(CASES.usual(domain, op_type)[0], 1):
        assert [f"{mutant.name} {mutant.change}: {wrong}" for mutant, _, wrong in findings_at_load(case) if wrong] == []


@pytest.mark.parametrize("target", SAMPLE, ids=str)
def test_mutants_are_refused_by_runs(target: GenerationTarget) -> None:
    counts: Counter[str] = Counter()
    assert list(check(target, counts, draws=1)) == []
    assert counts["run: refused"] or counts["run: accepted"]
