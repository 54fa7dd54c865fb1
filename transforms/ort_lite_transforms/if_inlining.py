"""An If whose condition is known becomes the branch that it takes."""

from ort_lite.graph import Graph, Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(op("If", "condition", name="node"), level="basic", counterparts=("ConstantFolding",))
def inline_known_if(rewriter: Rewriter, condition: Value, node: Node) -> Done | Skip:
    """The branch's nodes move in front of the If, under fresh value names: branches may use a name twice. O(branch)."""
    contents = rewriter.info(condition).contents
    if contents is None or len(contents) != 1 or not isinstance(contents[0], int):
        return Skip(f"{condition.name} is not known before the run")
    branch: Graph = node.attr("then_branch" if contents[0] else "else_branch")
    mapping: dict[Value, Value] = {}
    for value in branch.initializers.values():
        assert value.constant is not None
        mapping[value] = rewriter.constant(value.constant, value.name)
    for inner in branch:
        rewriter.insert_copy(inner, node, mapping)
    results: list[Value] = []
    for old, value in zip(node.outputs, branch.outputs, strict=True):
        results.append(_standing_for(rewriter, old, mapping.get(value, value), results))
    return rewriter.replace(node, *results)


def _standing_for(rewriter: Rewriter, old: Value | None, new: Value, given: list[Value]) -> Value:
    """`new`, or an Identity of it where `old` is a graph output and `new` cannot take its name."""
    if old is None or not old.is_graph_output():
        return new
    own = new.producer is not None and old.producer is not None and new.producer.graph is old.producer.graph
    return new if own and old.can_be_replaced_by(new) and new not in given else rewriter.op("Identity", new)
