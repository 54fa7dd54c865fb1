"""The stages in a row, for sessions and for the command line: a loaded Model becomes something that runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.checkpoint import begin_stage
from ort_lite.compile.fusing import Fuser
from ort_lite.compile.recovery import compile_or_next, reporter
from ort_lite.dtypes import DType
from ort_lite.errors import Fail, InvalidArgument, ModelRequiresCompilation
from ort_lite.execute.execute import Executable
from ort_lite.execute.guard import guarded
from ort_lite.graph.graph import Node, Value
from ort_lite.graph.inline import inline_functions
from ort_lite.graph.model import Model
from ort_lite.inference.annotate import annotate, override_dimensions
from ort_lite.inference.declared import merged_outputs
from ort_lite.inference.form import check_form, check_node
from ort_lite.inference.rules import ShapeRules
from ort_lite.inference.schema import NHWC_DOMAIN
from ort_lite.log.events import Span, no_span
from ort_lite.options.config_keys import DISABLE_COMPILE, DISABLE_CPU_FALLBACK, LAYERS_BY_NAME, ROUNDING, rounded_by_node
from ort_lite.options.options import GraphOptimizationLevel, SessionOptions
from ort_lite.options.policies import NEXT, Policy
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.constraints import Constraints
from ort_lite.partition.partition import names_of, partition, transfers_of
from ort_lite.partition.placement import PlacementRule
from ort_lite.pipeline.older_opsets import bring_to_imports
from ort_lite.pipeline.prepared import Prepared
from ort_lite.pipeline.share import changeable, share_constants
from ort_lite.plugins import plugins
from ort_lite.plugins.selection import DEFAULT
from ort_lite.provider.ask import ask
from ort_lite.provider.context_nodes import is_context
from ort_lite.provider.provider import Capability, CompiledPartition, ExecutionProvider, GraphView, Partition, Resource
from ort_lite.provider.subgraph import subgraph
from ort_lite.provider.unchanged import capabilities
from ort_lite.transform.contract import Transform
from ort_lite.transform.contract import names_of as transform_names
from ort_lite.transform.transform import TransformReport, transform

if TYPE_CHECKING:
    from ort_lite.compile.fallback import Fallback
    from ort_lite.partition.cost.strategy import Strategy

_LEVELS = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: "disable_all",
    GraphOptimizationLevel.ORT_ENABLE_BASIC: "basic",
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: "extended",
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: "layout",
    GraphOptimizationLevel.ORT_ENABLE_ALL: "all",
}
Check = Callable[[Assignment], Sequence[str]]
"""Looks at an assignment before it is compiled: warnings about it; raises where it must not be."""
_WIDER: dict[DType, DType] = {"float16": "float32", "bfloat16": "float32"}


def accept(assignment: Assignment) -> Sequence[str]:
    """A Check that finds nothing."""
    return ()


def prepare(
    model: Model,
    providers: Sequence[ExecutionProvider],
    options: SessionOptions,
    span: Span = no_span,
    policies: Sequence[Policy] = (),
    placement: Sequence[PlacementRule] = (),
    strategy: Any = None,
    check: Check = accept,
) -> Prepared:
    """All stages after loading. The model's graph is changed. `policies` are those of the providers, in order; none: the default.
    `strategy` is that of the partitioner; None: the config's. `check` sees each assignment; its warnings are of the last one.
    """
    policies = policies or [Policy()] * len(providers)
    constraints = constraints_of(providers, policies, placement, options)
    constraints.span = span
    policy_of = {id(provider): policy for provider, policy in zip(providers, policies, strict=True)}
    incidents: list[str] = []
    forgiving: list[Fallback] = []
    report_incident = reporter(incidents, options)

    def instead(partition: Partition) -> Executable:
        """What the providers after the partition's own make of its nodes, when it fails in a run."""
        after = 1 + next(k for k, provider in enumerate(providers) if provider is partition.provider)
        rest = model.replace(graph=subgraph(partition))
        return prepare(rest, providers[after:], options, policies=policies[after:]).compiled.executable

    def guard(partition: Partition, compiled: CompiledPartition, outer: Sequence[Value]) -> CompiledPartition:
        function = guarded(partition, compiled, outer, providers)
        if partition.provider is providers[-1] or policy_of[id(partition.provider)].on_run_error != NEXT:
            return function
        from ort_lite.compile.fallback import Fallback

        forgiving.append(Fallback(partition, function, instead, transfers_of(providers), report_incident))
        return forgiving[-1]

    def again() -> Assignment:
        assignment = assigned(model, providers, options, constraints, strategy)
        check(assignment)
        _check_compiled(assignment, options)
        return assignment

    begin_stage("transform")
    with span("transform"):
        given = changeable(model)
        report = transformed(model, providers, options, span)
        with span("share_constants"):
            share_constants(model, given)
    begin_stage("partition")
    with span("partition") as facts:
        assignment = again()
        facts.update(partitions=len(assignment.partitions), copies=sum(len(level.copies) for level in assignment.levels))
    begin_stage("compile")
    with span("compile"):
        by_name = dict(zip(constraints.labels, policies, strict=True))
        fuser = fuser_of(options)
        assignment, compiled = compile_or_next(assignment, again, by_name, constraints, guard, report_incident, fuser, span)
    for warning in check(assignment):
        report_incident(warning)
    begin_stage("finish")
    keeping = frozenset(f.partition.name for f in forgiving if f in compiled.called)
    return Prepared(model, report, assignment, compiled, incidents, keeping)


def constraints_of(
    providers: Sequence[ExecutionProvider],
    policies: Sequence[Policy] = (),
    placement: Sequence[PlacementRule] = (),
    options: SessionOptions | None = None,
) -> Constraints:
    """The constraints of partitioning: rules, those of the session's config last; what the user says of each provider; the smaller of
    what it is granted and what it has room for.
    """
    policies = policies or [Policy()] * len(providers)
    resources = [_resource(ask(p, "available_resource"), policy) for p, policy in zip(providers, policies, strict=True)]
    labels = names_of(providers)
    rules, remarks = _layer_rules(options, dict(zip(labels, providers, strict=True)))
    return Constraints(labels, [*placement, *rules], resources, policies, remarks)


def _layer_rules(
    options: SessionOptions | None, providers: Mapping[str, ExecutionProvider]
) -> tuple[list[PlacementRule], list[str]]:
    """The placement rules of the session's config, and what is to say of them. Raises InvalidArgument where they make no sense."""
    setting = "" if options is None else options.config(LAYERS_BY_NAME, "")
    if options is None or not setting:
        return [], []
    from ort_lite.partition.layer_assignment import layer_rules

    rules, remarks = layer_rules(setting, providers)
    for remark in remarks:
        log.warn(options, remark)
    return rules, remarks


def _resource(own: Resource | None, policy: Policy) -> Resource | None:
    def least(*limits: int | None) -> int | None:
        return min((limit for limit in limits if limit is not None), default=None)

    found = Resource(
        least(policy.limit_nodes, own.nodes if own else None), least(policy.limit_bytes, own.nbytes if own else None)
    )
    return None if found == Resource() else found


def _check_fallback(assignment: Assignment, options: SessionOptions) -> None:
    """Raises Fail naming each node on the default provider where the session's config rules that out."""
    if options.config(DISABLE_CPU_FALLBACK, "0") != "1":
        return
    left = [place.node for _, place in assignment.rows() if place.provider == DEFAULT]
    if left:
        lines = [f"  {node}: {assignment.why_not(node) or 'nobody else was asked'}" for node in left]
        some = "a node" if len(left) == 1 else f"{len(left)} nodes"
        raise Fail(f"{DISABLE_CPU_FALLBACK} is set, and {DEFAULT} would run {some}:\n" + "\n".join(lines))


def _check_compiled(assignment: Assignment, options: SessionOptions) -> None:
    """Raises ModelRequiresCompilation where the session's config rules compiling out, kernels and the default provider aside."""
    if options.config(DISABLE_COMPILE, "0") != "1":
        return
    from ort_lite.provider.kernels import KernelProvider

    ready = [is_context(p.nodes[0]) or isinstance(p.provider, KernelProvider) for p in assignment.partitions]
    left = [p for p, done in zip(assignment.partitions, ready, strict=True) if not done and p.provider.name != DEFAULT]
    if left:
        lines = [f"  {p.name}: {', '.join(map(str, p.nodes[:3]))}{', ...' if len(p.nodes) > 3 else ''}" for p in left]
        why = "these partitions are not compiled (InferenceSession.save_compiled makes a model in which they are)"
        raise ModelRequiresCompilation(f"{DISABLE_COMPILE} is set, and {why}:\n" + "\n".join(lines))


def apply_options(model: Model, options: SessionOptions) -> None:
    """Puts free-dimension overrides and replaced initialisers into a model that was just loaded."""
    by_name, by_denotation = options.free_dimensions
    override_dimensions(model, by_name, by_denotation)
    for name, given in options.initializers.items():
        value = model.graph.initializers.get(name)
        if value is None or value.constant is None:
            raise InvalidArgument(f"add_initializer: the model has no initialiser {name!r}")
        array = given.numpy() if hasattr(given, "numpy") else given
        if array.dtype != value.constant.dtype or array.shape != value.constant.shape:
            came, expected = (f"{a.dtype}{list(a.shape)}" for a in (array, value.constant))
            raise InvalidArgument(f"add_initializer: {name!r} is {came}; the model's is {expected}")
        value.constant = array


def transformed(
    model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, span: Span = no_span
) -> TransformReport:
    """Checks the form of all nodes, then transforms up to the session's optimisation level. Calls of functions that no provider
    claims are inlined before. Raises InvalidGraph where a node is not as its operator's schema says.
    """
    with span("check_form"):
        check_form(model, rules_of(providers))
    return _simplified(model, providers, options, plugins.transforms(options.installed_transforms), span)


def saved_form(model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions) -> Model:
    """The model as a session saves it: a copy, transformed only as onnxruntime would. Tools match the patterns that it leaves.

    The model that the session runs is transformed further. Raises what `transformed` raises.
    """
    made = model.clone()
    declared = [value.type for value in made.graph.outputs]
    check_form(made, rules_of(providers))
    transforms = [
        found for found in plugins.transforms(options.installed_transforms) if found.counterparts or found.level == "required"
    ]
    _simplified(made, providers, options, transforms)
    for value, type_ in zip(made.graph.outputs, merged_outputs(made, declared), strict=True):
        value.type = type_
    bring_to_imports(made)
    return made


def _simplified(
    model: Model,
    providers: Sequence[ExecutionProvider],
    options: SessionOptions,
    transforms: Sequence[Transform],
    span: Span = no_span,
) -> TransformReport:
    """As `transformed`, of a model whose nodes were checked."""
    while calls := _unclaimed_calls(model, providers):
        _inline(model, calls, providers)
    level = _LEVELS[options.graph_optimization_level]
    disabled = options.disabled_optimizers & transform_names(transforms)
    return transform(model, transforms, level, rules=rules_of(providers), disabled=disabled, span=span)


def fuser_of(options: SessionOptions) -> Fuser:
    """What makes fused copies of partitions at the session's optimisation level."""
    return Fuser(_LEVELS[options.graph_optimization_level], options.disabled_optimizers, options.installed_transforms)


def _inline(model: Model, calls: set[Node], providers: Sequence[ExecutionProvider]) -> int:
    rules = rules_of(providers)

    def made(node: Node) -> None:
        """Attributes came from the call. What the function declares of types is that of one call: inference knows better."""
        check_node(node, model, rules)
        if rules.find(node) is not None:
            for value in node.outputs:
                if value is not None:
                    value.type = None

    return inline_functions(model.graph, model, calls.__contains__, made)


def rules_of(providers: Sequence[ExecutionProvider]) -> ShapeRules:
    """Shape rules and schemas: those that providers bring for operators of their own, and then everybody's."""
    classes: dict[type[ExecutionProvider], None] = dict.fromkeys(map(type, providers))
    own = [rule for cls in classes for rule in ask(cls, "shape_rules")]
    schemas = [schema for cls in classes for schema in ask(cls, "schemas")]
    return plugins.shape_rules().preceded_by(own, schemas) if own or schemas else plugins.shape_rules()


def _unclaimed_calls(model: Model, providers: Sequence[ExecutionProvider]) -> set[Node]:
    """Calls of model-local functions in no provider's capabilities."""
    calls = [n for n in model.graph.all_nodes() if (n.domain, n.op_type, n.overload) in model.functions]
    if not calls:
        return set()
    rules = rules_of(providers)
    annotate(model.graph, rules)
    claimed = set[Node]()
    for graph in dict.fromkeys(call.graph for call in calls if call.graph is not None):
        for provider in providers:
            answers = capabilities(provider, GraphView(graph, rules=rules))
            claimed.update(node for answer in answers if isinstance(answer, Capability) for node in answer.nodes)
    return set(calls) - claimed


def assigned(
    model: Model,
    providers: Sequence[ExecutionProvider],
    options: SessionOptions,
    constraints: Constraints | None = None,
    strategy: Any = None,
) -> Assignment:
    """The Assignment of a transformed model. Where nobody takes a call of a function after all, it is inlined and
    transformed; where nobody takes a node in its element type, Casts to a wider one are put around it.

    Raises Fail where a node is left to the default provider although the session's config says that it must not be.
    """
    rules = rules_of(providers)
    constraints = constraints if constraints is not None else constraints_of(providers)
    chosen = _strategy(strategy, options)
    if chosen is not None and options.config(DISABLE_CPU_FALLBACK, "0") == "1":
        constraints.kept_off = frozenset({DEFAULT})
    remedies = _Remedies(model, providers, options, constraints)

    def deal() -> Assignment:
        tried = (remedies.put_back, remedies.inline, remedies.widen)
        return partition(model.graph, providers, rules, tried, constraints, chosen)

    assignment = deal()
    if _lay_out(model, assignment, constraints):
        assignment = deal()
    _check_fallback(assignment, options)
    return assignment


class _Remedies:
    """What is tried for nodes that nobody takes. Each says whether it changed the graph, so that all are dealt out anew."""

    def __init__(
        self, model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, constraints: Constraints
    ) -> None:
        self._model, self._providers, self._options, self._constraints = model, providers, options, constraints
        self._fuser = fuser_of(options)
        self._widened: set[Node] = set()
        self._rounded = rounded_by_node(options.config(ROUNDING, ""))

    def put_back(self, left: list[Node]) -> bool:
        """Nodes that are channels-last are as they were."""
        nodes = [node for node in left if node.domain == NHWC_DOMAIN]
        if nodes:
            made = plugins.layout_conversion().restore(self._model.graph, nodes)
            self._constraints.note_inserted(made, "layout, around a node that was channels-last")
            self._constraints.note_put_back(nodes)
        return bool(nodes)

    def inline(self, left: list[Node]) -> bool:
        """Calls of functions become the functions' nodes."""
        if not _inline(self._model, set(left), self._providers):
            return False
        _simplified(self._model, self._providers, self._options, plugins.transforms(self._options.installed_transforms))
        return True

    def widen(self, left: list[Node]) -> bool:
        """Nodes compute in a wider element type, once, between Casts, across which no pattern matches: a single provider's fusions
        come before them. Nobody else could take the parts.
        """
        new = (node for node in left if node not in self._widened)
        wanted = {node: dtype for node in new if (dtype := _wider(node, self._providers)) is not None}
        if (
            wanted
            and len(self._providers) == 1
            and self._fuser.fuse(self._model, self._providers[0], rules_of(self._providers))
        ):
            return True
        self._widened.update(wanted)
        if wanted:
            casts = plugins.cast_insertion()(self._model.graph, wanted, self._rounded)
            self._constraints.note_inserted(casts, "cast, for a node that nobody runs in its element type")
        return bool(wanted)


def _strategy(given: Any, options: SessionOptions) -> "Strategy | None":
    if given is None and not options.config("ort_lite.partitioning", ""):
        return None
    from ort_lite.partition.cost.strategy import strategy_of

    return strategy_of(given, options)


def _lay_out(model: Model, assignment: Assignment, constraints: Constraints) -> bool:
    """Makes nodes channels-last whose provider prefers that; whether there are any. Each node is offered so once."""
    plain = ExecutionProvider.preferred_layout
    able = {name: p for name, p in assignment.providers.items() if type(p).preferred_layout is not plain}
    possible = (place for place in assignment.placements.values() if place.provider in able)
    offers = [place for place in possible if constraints.first_offer(place.node)]
    wanted = {
        place.node: place.provider for place in offers if ask(able[place.provider], "preferred_layout", place.node) == "NHWC"
    }
    if not wanted:
        return False
    made = plugins.layout_conversion().convert(model.graph, wanted)
    why = f"layout, for {', '.join(dict.fromkeys(wanted.values()))}, which prefers NHWC"
    constraints.note_inserted(made, why)
    constraints.graph_changed()
    return True


def _wider(node: Node, providers: Sequence[ExecutionProvider]) -> DType | None:
    """A wider floating-point type than the node's that one of the providers could run it with."""
    for value in (*node.inputs, *node.outputs):
        dtype = _WIDER.get(value.dtype or "") if value is not None else None
        if dtype is not None and any(ask(provider, "supports_type", node, dtype) for provider in providers):
            return dtype
    return None
