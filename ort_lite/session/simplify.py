"""The transforms of a session: inline function calls that no provider claims, then simplify the graph."""

from collections.abc import Collection, Sequence

from ort_lite.compile.fusing import Fuser
from ort_lite.graph.graph import Node
from ort_lite.graph.inline import inline_functions
from ort_lite.graph.model import Model
from ort_lite.inference.annotate import annotate
from ort_lite.inference.declared import merge_outputs
from ort_lite.inference.form import check_form, check_node
from ort_lite.inference.shape_rules import ShapeRules
from ort_lite.log.events import Span, no_span
from ort_lite.options.options import GraphOptimizationLevel, SessionOptions
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import rules_of
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView
from ort_lite.provider.unchanged import capabilities
from ort_lite.session.older_opsets import bring_to_imports
from ort_lite.transform.contract import Transform, names_of
from ort_lite.transform.transform import TransformReport, transform

_LEVELS = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: "disable_all",
    GraphOptimizationLevel.ORT_ENABLE_BASIC: "basic",
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: "extended",
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: "layout",
    GraphOptimizationLevel.ORT_ENABLE_ALL: "all",
}


def simplify(
    model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, span: Span = no_span
) -> TransformReport:
    """Check all nodes, then transform the model's graph up to the session's optimization level.

    Raises:
        InvalidGraph: a node does not match its operator's schema.
    """
    transforms = plugins.transforms(options.installed_transforms)
    return apply_transforms(model, providers, options, transforms, span, checked=False)


def apply_transforms(
    model: Model,
    providers: Sequence[ExecutionProvider],
    options: SessionOptions,
    transforms: Sequence[Transform],
    span: Span = no_span,
    checked: bool = True,
) -> TransformReport:
    """Inline function calls that no provider claims, then apply the transforms.

    With `checked=False`, the nodes are checked against their schemas first.
    """
    rules = rules_of(providers)
    if not checked:
        with span("check_form"):
            check_form(model, rules)
    while model.functions and (calls := _calls_without_provider(model, providers, rules)):
        inline_calls(model, calls, providers)
    level = _LEVELS[options.graph_optimization_level]
    disabled = options.disabled_optimizers & names_of(transforms)
    return transform(model, transforms, level, rules=rules, disabled=disabled, span=span)


def form_to_save(model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions) -> Model:
    """Return a copy of the model for saving, transformed only as far as onnxruntime would.

    Other tools recognize the patterns that it leaves. The model that the session runs is transformed further. Raises the errors
    of `simplify`.
    """
    copy = model.clone()
    declared = [value.type for value in copy.graph.outputs]
    transforms = [
        one for one in plugins.transforms(options.installed_transforms) if one.counterparts or one.level == "required"
    ]
    apply_transforms(copy, providers, options, transforms, checked=False)
    types = merge_outputs(copy.graph, declared, copy.unnamed_dims, rules_of(providers))
    for value, type_ in zip(copy.graph.outputs, types, strict=True):
        value.type = type_
    bring_to_imports(copy)
    return copy


def fuser_of(options: SessionOptions) -> Fuser:
    """Return the Fuser for copies of partitions at the session's optimization level."""
    return Fuser(_LEVELS[options.graph_optimization_level], options.disabled_optimizers, options.installed_transforms)


def inline_calls(model: Model, calls: Collection[Node], providers: Sequence[ExecutionProvider]) -> int:
    """Replace calls of model-local functions by the functions' nodes. Return the number of calls."""
    rules = rules_of(providers)

    def check(node: Node) -> None:
        """Check an inlined node and drop the types that the function declares: inference derives better ones."""
        check_node(node, model, rules)
        if rules.find(node) is not None:
            for value in node.outputs:
                if value is not None:
                    value.type = None

    return inline_functions(model.graph, model, set(calls).__contains__, check)


def _calls_without_provider(model: Model, providers: Sequence[ExecutionProvider], rules: ShapeRules) -> set[Node]:
    """Return the calls of model-local functions that no provider claims."""
    calls = [n for n in model.graph.all_nodes() if (n.domain, n.op_type, n.overload) in model.functions]
    if not calls:
        return set()
    annotate(model.graph, rules)
    claimed = set[Node]()
    for graph in dict.fromkeys(call.graph for call in calls if call.graph is not None):
        for provider in providers:
            answers = capabilities(provider, GraphView(graph, rules=rules))
            claimed.update(node for answer in answers if isinstance(answer, Capability) for node in answer.nodes)
    return set(calls) - claimed
