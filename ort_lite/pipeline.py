"""The stages in a row, for sessions and for the command line: a loaded Model becomes something that runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from ort_lite import plugins
from ort_lite.dtypes import DType
from ort_lite.errors import InvalidArgument
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Model, Node
from ort_lite.options import GraphOptimizationLevel, SessionOptions
from ort_lite.provider import Capability, ExecutionProvider, GraphView
from ort_lite.record import Record
from ort_lite.stages.annotate import annotate, override_dimensions
from ort_lite.stages.assignment import Assignment
from ort_lite.stages.compile import Compiled, compile_assignment
from ort_lite.stages.inline import inline_functions
from ort_lite.stages.partition import partition
from ort_lite.stages.transform import TransformReport, transform

Span = Callable[[str], AbstractContextManager[None]]
"""Called with a stage's name around it, for profiles."""

_LEVELS = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: "disable_all",
    GraphOptimizationLevel.ORT_ENABLE_BASIC: "basic",
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: "extended",
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: "layout",
    GraphOptimizationLevel.ORT_ENABLE_ALL: "all",
}
_WIDER: dict[DType, DType] = {"float16": "float32", "bfloat16": "float32"}


@contextmanager
def no_span(name: str) -> Iterator[None]:
    yield


class Prepared(Record):
    """A model after all stages, and what each of them reported."""

    model: Model
    report: TransformReport
    assignment: Assignment
    compiled: Compiled


def prepare(
    model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, span: Span = no_span,
    disabled: Sequence[str] = (),
) -> Prepared:  # fmt: skip
    """All stages after loading. The model's graph is changed."""
    with span("transform"):
        report = transformed(model, providers, options, disabled)
    with span("partition"):
        assignment = assigned(model, providers, options, disabled)
    with span("compile"):
        compiled = compile_assignment(assignment)
    return Prepared(model, report, assignment, compiled)


def apply_options(model: Model, options: SessionOptions) -> None:
    """Puts free-dimension overrides and replaced initialisers into a model that was just loaded."""
    by_name, by_denotation = options.free_dimensions
    if by_denotation:
        raise NotSupported(
            f"free-dimension overrides by denotation ({', '.join(by_denotation)}) are not supported: override by name"
        )
    override_dimensions(model.graph, by_name)
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
    model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, disabled: Sequence[str] = ()
) -> TransformReport:
    """Transforms up to the session's optimisation level. Calls of functions that no provider claims are inlined before."""
    while calls := _unclaimed_calls(model, providers):
        inline_functions(model.graph, model, calls.__contains__)
    level = _LEVELS[options.graph_optimization_level]
    return transform(model, plugins.transforms(), level, rules=plugins.shape_rules(), disabled=disabled)


def _unclaimed_calls(model: Model, providers: Sequence[ExecutionProvider]) -> set[Node]:
    """Calls of model-local functions in no provider's capabilities."""
    calls = [n for n in model.graph.all_nodes() if (n.domain, n.op_type, n.overload) in model.functions]
    if not calls:
        return set()
    rules = plugins.shape_rules()
    annotate(model.graph, rules)
    claimed = set[Node]()
    for graph in dict.fromkeys(call.graph for call in calls if call.graph is not None):
        for provider in providers:
            answers = provider.get_capability(GraphView(graph, rules=rules))
            claimed.update(node for answer in answers if isinstance(answer, Capability) for node in answer.nodes)
    return set(calls) - claimed


def assigned(
    model: Model, providers: Sequence[ExecutionProvider], options: SessionOptions, disabled: Sequence[str] = ()
) -> Assignment:
    """The Assignment of a transformed model. Where nobody takes a call of a function after all, it is inlined and
    transformed; where nobody takes a node in its element type, Casts to a wider one are put around it.
    """
    rules = plugins.shape_rules()
    widened: set[Node] = set()

    def inline(left: list[Node]) -> bool:
        if not inline_functions(model.graph, model, set(left).__contains__):
            return False
        transformed(model, providers, options, disabled)
        return True

    def widen(left: list[Node]) -> bool:
        wanted = {node: dtype for node in left if node not in widened and (dtype := _wider(node, providers)) is not None}
        widened.update(wanted)
        if wanted:
            plugins.cast_insertion()(model.graph, wanted)
        return bool(wanted)

    return partition(model.graph, providers, rules, (inline, widen))


def _wider(node: Node, providers: Sequence[ExecutionProvider]) -> DType | None:
    """A wider floating-point type than the node's that one of the providers could run it with."""
    for value in (*node.inputs, *node.outputs):
        dtype = _WIDER.get(value.dtype or "") if value is not None else None
        if dtype is not None and any(provider.supports_type(node, dtype) for provider in providers):
            return dtype
    return None
