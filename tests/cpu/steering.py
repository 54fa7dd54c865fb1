"""A lint over the sources of kernels: which operands steer addresses by elements that may be loaded more than once.

The pattern that it finds: an element of an operand is compared in one place, and loaded again where it becomes an address. Feeds and
bound outputs are the caller's memory, so another thread may write to it in between. `read_once` is the remedy: its value is in a
register when it is compared, and stays there.

The lint follows values through a function: from `x[i]` over names, arithmetic and calls to what is an address: an index, the offset of
`shift`, a bound of `range` by way of its variable, an argument that is an address in the function that is called. What comparisons give
is no address. A pointer in a record that a helper gets is followed by the name of its field. It looks at no branches and no order: it
may find too much, and exceptions say why that is right.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
Flow = frozenset[str]
"""The parameters that a value comes from, by name. That of a pointer stands for an element of it, by a plain load."""
NOTHING: Flow = frozenset()


@dataclass
class Function:
    """One function, and what is known of it so far: sets of its parameters' names, which only grow."""

    node: ast.FunctionDef
    is_kernel: bool
    parameters: list[str]
    pointers: set[str]
    """The pointers among them, and "record.field" for parameters that are records with pointers."""
    records: dict[str, list[str]]
    """The fields of such parameters."""
    addresses: set[str] = field(default_factory=set)
    """Parameters whose values become addresses; of a pointer, elements of it."""
    results: set[str] = field(default_factory=set)
    """Parameters that the result is made of."""
    twice: set[str] = field(default_factory=set)
    """Elements that `read_once` reads in more than one place."""


def steering_operands(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Kernels by name, each with the operands that steer an address other than by one `read_once` of the element.

    `sources`: texts of modules by name.
    """
    modules = {name: ast.parse(source) for name, source in sources.items()}
    own_records = {module: dict(_records(tree)) for module, tree in modules.items()}
    records = {module: _scope(tree, own_records) | own_records[module] for module, tree in modules.items()}
    functions = {module: _functions(tree, records[module]) for module, tree in modules.items()}
    scopes = {module: _scope(tree, functions) | functions[module] for module, tree in modules.items()}
    walks, size = [_Walk(function, scopes[module], records[module]) for module, function in _native(functions, scopes)], -1
    while size != (size := sum(walk.size for walk in walks)):
        for walk in walks:
            walk.step()
    return {
        function.node.name: found
        for own in functions.values()
        for function in own.values()
        if function.is_kernel and (found := (function.addresses & function.pointers) | function.twice)
    }


def _records(module: ast.Module) -> Iterator[tuple[str, dict[str, bool]]]:
    """Yield the named tuples with pointers: their names, and whether each field is one."""
    for node in module.body:
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases):
            kinds = {
                ast.unparse(one.target): ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)
            }
            if "Ptr" in kinds.values():
                yield node.name, {name: kind == "Ptr" for name, kind in kinds.items()}


def _functions(module: ast.Module, known: Mapping[str, Mapping[str, bool]]) -> dict[str, Function]:
    found = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            parameters = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
            kinds = {a.arg: ast.unparse(a.annotation) for a in node.args.args if a.annotation is not None}
            pointers = {name for name, kind in kinds.items() if kind == "Ptr"}
            records = {name: list(known[kind]) for name, kind in kinds.items() if kind in known}
            pointers |= {
                f"{name}.{field}" for name in records for field, is_pointer in known[kinds[name]].items() if is_pointer
            }
            is_kernel = any("extents(" in ast.unparse(decorator) for decorator in node.decorator_list)
            found[node.name] = Function(node, is_kernel, parameters, pointers, records)
    return found


def _scope(module: ast.Module, modules: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """The functions or records that a module imports, by the names that they have there."""
    return {
        alias.asname or alias.name: known[alias.name]
        for node in module.body
        if isinstance(node, ast.ImportFrom) and (known := modules.get(node.module or ""))
        for alias in node.names
        if alias.name in known
    }


def _called(node: ast.expr) -> str:
    """The name of the function that a call is of; "" for anything else."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _native(
    functions: Mapping[str, Mapping[str, Function]], scopes: Mapping[str, Mapping[str, Function]]
) -> list[tuple[str, Function]]:
    """The functions with pointers among their parameters, and those that they call, each with its module."""
    homes = {id(function): (module, function) for module, own in functions.items() for function in own.values()}
    left = [(module, function) for module, function in homes.values() if function.pointers]
    found = {id(function): (module, function) for module, function in left}
    while left:
        module, function = left.pop()
        for node in ast.walk(function.node):
            other = scopes[module].get(_called(node)) if isinstance(node, ast.Call) else None
            if other is not None and id(other) not in found:
                found[id(other)] = homes[id(other)]
                left.append(homes[id(other)])
    return list(found.values())


class _Walk:
    """The values of one function, with what is known of those that it calls."""

    def __init__(self, function: Function, known: Mapping[str, Function], records: Mapping[str, Mapping[str, bool]]) -> None:
        self._function, self._known, self._records = function, known, records
        self._flows: dict[str, Flow] = {
            name: frozenset({name}) for name in function.parameters if name not in function.pointers
        }
        self._roots: dict[str, Flow] = {name: frozenset({name}) for name in function.pointers}
        """The parameters that a pointer may have come from."""
        nodes = list(ast.walk(function.node))
        self._bindings = [pair for node in nodes for pair in _bindings(node)]
        self._subscripts = [node for node in nodes if isinstance(node, ast.Subscript)]
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
        once = Counter(ast.unparse(node) for node in self._calls if _called(node) == "read_once")
        function.twice = {text.partition("(")[2].partition(",")[0] for text, count in once.items() if count > 1}

    def step(self) -> None:
        """Adds to the sets of the function what they lack."""
        for target, value in self._bindings:
            self._bind(target, value)
        for subscript in self._subscripts:
            if self._pointers(subscript.value):
                self._function.addresses |= self._flow(subscript.slice)
        for call in self._calls:
            self._function.addresses |= self._addresses_of_call(call)
        for value in self._returned:
            self._function.results |= self._flow(value)

    @property
    def size(self) -> int:
        """How much is known; never less than before."""
        own = sum(map(len, (*self._flows.values(), *self._roots.values())))
        return own + len(self._function.addresses) + len(self._function.results)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            pairwise = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            values = value.elts if pairwise and isinstance(value, ast.Tuple) else [value] * len(target.elts)
            for one, other in zip(target.elts, values, strict=True):
                self._bind(one, other)
        elif isinstance(target, ast.Name):
            fields = self._records.get(_called(value), {})
            if isinstance(value, ast.Call) and fields:
                for field_name, argument in zip(fields, value.args, strict=True):
                    self._bind(ast.Name(f"{target.id}.{field_name}"), argument)
            elif roots := self._pointers(value):
                self._roots[target.id] = self._roots.get(target.id, NOTHING) | roots
            else:
                self._flows[target.id] = self._flows.get(target.id, NOTHING) | self._flow(value)

    def _pointers(self, node: ast.expr) -> Flow:
        """The parameters that a pointer comes from; none for what is no pointer."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._roots.get(ast.unparse(node), NOTHING)
        if isinstance(node, ast.IfExp):
            return self._pointers(node.body) | self._pointers(node.orelse)
        if isinstance(node, ast.Call) and _called(node) == "shift":
            return self._pointers(node.args[0])
        return NOTHING

    def _flow(self, node: ast.expr) -> Flow:
        if isinstance(node, ast.Name):
            return self._flows.get(node.id, NOTHING)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in self._flows:
            return self._flows[ast.unparse(node)]
        if isinstance(node, ast.Subscript):
            return self._pointers(node.value)
        if isinstance(node, ast.Compare):
            return NOTHING
        if isinstance(node, ast.IfExp):
            return self._flow(node.body) | self._flow(node.orelse)
        if isinstance(node, ast.Call):
            return self._flow_of_call(node)
        return NOTHING.union(*(self._flow(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)))

    def _flow_of_call(self, node: ast.Call) -> Flow:
        name = _called(node)
        if name in ("read_once", "null", "failure_status"):
            return NOTHING
        if name == "like":
            return self._flow(node.args[1])
        called = self._known.get(name)
        if called is None:
            return NOTHING.union(*map(self._flow, node.args))
        return NOTHING.union(*(self._given(argument) for name, argument in _named(called, node) if name in called.results))

    def _addresses_of_call(self, node: ast.Call) -> Flow:
        name = _called(node)
        if name in ("shift", "read_once"):
            return self._flow(node.args[1])
        called = self._known.get(name)
        if called is None:
            return NOTHING
        return NOTHING.union(*(self._given(argument) for name, argument in _named(called, node) if name in called.addresses))

    def _given(self, argument: ast.expr) -> Flow:
        return self._pointers(argument) or self._flow(argument)


def _bindings(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """(target, value) of an assignment; a loop's variable is bound to what it runs over."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [] if node.value is None else [(node.target, node.value)]
    return [(node.target, node.iter)] if isinstance(node, ast.For) else []


def _named(called: Function, node: ast.Call) -> Iterable[tuple[str, ast.expr]]:
    for name, argument in zip(called.parameters, node.args, strict=False):
        yield name, argument
        for k, field_name in enumerate(called.records.get(name, ())):
            given = argument.args[k] if isinstance(argument, ast.Call) else ast.Attribute(argument, field_name)
            yield f"{name}.{field_name}", given
    yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None)
