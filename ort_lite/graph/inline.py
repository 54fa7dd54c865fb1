"""Model-local functions: a call becomes the nodes of the function's body."""

from collections.abc import Callable, Mapping
from typing import Any

from ort_lite.errors import InvalidGraph
from ort_lite.graph.graph import Attr, Graph, Node, Value, clone_node
from ort_lite.graph.model import Function, Model, Names

_NODE_LIMIT = 100_000  # of one call, functions within functions, and of all calls together
_DEPTH_LIMIT = 256  # functions within functions

FunctionKey = tuple[str, str, str]  # domain, name, overload


def inline_functions(
    graph: Graph,
    model: Model,
    which: Callable[[Node], bool] = lambda node: True,
    made: Callable[[Node], object] = lambda node: None,
) -> int:
    """Replaces calls of `model.functions` in `graph` and its bodies for which `which(call)` holds; those inside of what was
    inlined too. Returns how many. New names are `<call>/<name in the function>`. O(nodes that result).

    `made` is called with every new node, which has the call's attributes by then. Raises InvalidGraph for too many nodes.
    """
    if not model.functions:
        return 0
    names = Names(graph)
    count = 0
    made_nodes = 0
    waiting = [call for call in graph.all_nodes() if _key(call) in model.functions]
    while waiting:
        call = waiting.pop()
        if call.graph is not None and which(call):  # None: the body of a call that was replaced had it
            function = model.functions[_key(call)]
            identity = function.opset_imports.get("") or model.opset_imports.get("", 1)
            nodes = _replace(call, function, names, identity)
            made_nodes += len(nodes) - 1
            if made_nodes > _NODE_LIMIT:
                raise InvalidGraph(f"{call}: the calls of functions in the model stand for more than {_NODE_LIMIT} nodes")
            for node in nodes:
                made(node)
            waiting += [node for node in nodes if _key(node) in model.functions]
            count += 1
    return count


def check_functions(functions: Mapping[FunctionKey, Function]) -> None:
    """Raises InvalidGraph for functions that call themselves, or become more than _NODE_LIMIT nodes."""
    sizes: dict[FunctionKey, int] = {}
    open_calls: dict[FunctionKey, None] = {}

    def size(key: FunctionKey) -> int:
        if key in open_calls:
            through = " -> ".join(name for _, name, _ in open_calls)
            raise InvalidGraph(f"function {key[1]!r} of domain {key[0]!r} calls itself: {through} -> {key[1]}")
        if len(open_calls) >= _DEPTH_LIMIT:
            raise InvalidGraph(
                f"function {key[1]!r} of domain {key[0]!r} is called through {_DEPTH_LIMIT} others, one in the other"
            )
        if key not in sizes:
            open_calls[key] = None
            calls = [_key(node) for node in functions[key].graph.all_nodes()]
            sizes[key] = sum(size(call) if call in functions else 1 for call in calls)
            del open_calls[key]
            if sizes[key] > _NODE_LIMIT:
                raise InvalidGraph(f"function {key[1]!r} of domain {key[0]!r} stands for more than {_NODE_LIMIT} nodes")
        return sizes[key]

    for key in functions:
        size(key)


def _key(node: Node) -> FunctionKey:
    return node.domain, node.op_type, node.overload


def _replace(call: Node, function: Function, names: Names, identity: int) -> list[Node]:
    """Puts the function's nodes in the place of the call; returns them with those of their bodies."""
    graph, body = call.graph, function.graph
    assert graph is not None
    if len(call.inputs) > len(body.inputs) or len(call.outputs) > len(body.outputs):
        came = f"{len(call.inputs)} inputs and {len(call.outputs)} outputs"
        raise InvalidGraph(f"{call}: {came}, the function has {len(body.inputs)} and {len(body.outputs)}")
    left_out = {value: Value(value.name) for value in body.inputs}
    mapping = dict(left_out)
    mapping.update((value, given) for value, given in zip(body.inputs, call.inputs, strict=False) if given is not None)
    copies = [graph.insert_before(call, clone_node(node, mapping)) for node in body]
    for value, stand_in in left_out.items():
        for reader, index in list(stand_in.uses):
            reader.replace_input(index, None)
        if stand_in.is_graph_output() or (value in body.outputs and mapping[value] is stand_in):
            raise InvalidGraph(f"{call}: the function returns its input {value.name!r}, which the call leaves out")
    nodes = [node for copy in copies for node in (copy, *(n for inner in copy.subgraphs() for n in inner.all_nodes()))]
    for node in nodes:
        _bind_attributes(node, call, function)
        _rename(node, call.name, names)
    computed = set(copies)
    for old, result in zip(call.outputs, body.outputs, strict=False):
        if old is not None:
            new = mapping[result]
            if new.producer not in computed or new.is_graph_output():
                new = _identity(new, call, names, identity)
            _hand_over(old, new)
    graph.remove(call)
    return nodes


def _identity(value: Value, call: Node, names: Names, version: int) -> Value:
    """Another value for one that is an input, or that stands for another output of the call already."""
    assert call.graph is not None
    node = Node("Identity", [value], [Value("", value.type)], version=version, name=names(f"{call.name}/Identity"))
    return call.graph.insert_before(call, node).output


def _hand_over(old: Value, new: Value) -> None:
    name = old.name
    new.type = old.type or new.type
    old.replace_all_uses_with(new)
    old.name, new.name = "", name


def _bind_attributes(node: Node, call: Node, function: Function) -> None:
    """References take the call's attribute, else the function's default, else they are left out."""
    for attribute in list(node.attributes.values()):
        if attribute.ref:
            del node.attributes[attribute.name]
            actual = call.attributes.get(attribute.ref) or function.defaults.get(attribute.ref)
            if actual is not None:
                node.attributes[attribute.name] = Attr(attribute.name, actual.type, _own(actual))


def _own(attribute: Attr) -> Any:
    """The value; graphs are copied, since each belongs to one node."""
    if attribute.type == "GRAPH":
        return attribute.value.clone()
    return [graph.clone() for graph in attribute.value] if attribute.type == "GRAPHS" else attribute.value


def _rename(node: Node, prefix: str, names: Names) -> None:
    node.name = names(f"{prefix}/{node.name}")
    values = [value for value in node.outputs if value is not None]
    for body in node.subgraphs():
        values += body.inputs
        values += [value for value in body.initializers.values() if value not in body.inputs]
    for value in values:
        value.name = names(f"{prefix}/{value.name}")
    for body in node.subgraphs():
        body.initializers = {value.name: value for value in body.initializers.values()}
