"""The values of a program under construction: which tensor each is, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_lite.dtypes import Array
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Graph, Node, Value
from ort_lite.inference import CONTENTS_LIMIT, Inference, Info, ShapeRules
from ort_lite.provider import Body
from ort_lite.shapes import Expr, Symbol, product, same, symbol, symbols
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.builder import Builder
from ort_lite_cpu.lowering.lowered import SymbolSource
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.options import CPUOptions

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.deferred_suffix import SuffixProgram


class Values:
    """The tensors of values, and what is known of each value; `builder` has the instructions."""

    def __init__(
        self,
        inputs: Sequence[tuple[Value, Info]],
        rules: ShapeRules,
        options: CPUOptions,
        bodies: Mapping[Graph, Body],
        program: Callable[..., SuffixProgram],
    ) -> None:
        """Use `program` to make programs of nodes, inputs, outputs, rules, options and bodies, as the class `Program` does."""
        self.builder = Builder(options.threads, options.kernels)
        self.options, self.bodies, self.program = options, bodies, program
        self.inference = Inference(rules, strict=True)
        self.tensors: dict[Value, Tensor] = {}
        self.remaining: dict[Value, int] = {}
        """How many readers of a value, outputs of the program among them, are still to come."""
        self.coming: set[Node] = set()
        """Nodes that are still to be lowered. One that is done with another before it is taken out."""
        self.joined: dict[Node, Tensor] = {}
        """Results of nodes to come that those before them write into, each a part."""
        for value, info in inputs:
            self._add_input(value, info)
        self.is_body = False
        self.outer: frozenset[Symbol] = frozenset()
        """Symbols that the program around this body has values for."""
        self.free = frozenset(self.builder.result.sources)
        """Dimensions of the program's inputs."""

    def inside(self, bodies: Mapping[Graph, Body]) -> Values:
        """Return those of a body of a node of this program, whose instructions may become part of it."""
        values = Values((), self.inference.rules, self.options, bodies, self.program)
        values.outer, values.is_body, values.free = self.available_symbols, True, self.free
        values.builder.result.assumptions = self.builder.result.assumptions
        return values

    @property
    def available_symbols(self) -> frozenset[Symbol]:
        """The symbols that have a value when what is lowered next runs."""
        return self.outer | self.builder.result.sources.keys()

    def assume(self, conditions: Sequence[Dim]) -> bool:
        """Assume that all conditions are 1. Returns False, and assumes none, if one is 0 or not decided by the shapes of the inputs."""
        open_ = [condition for condition in conditions if not same(condition, 1)]
        if not all(isinstance(condition, Expr) for condition in open_) or not self.free.issuperset(symbols(open_)):
            return False
        self.builder.result.assumptions += open_
        return True

    def forget_tensors(self) -> None:
        """Forget all tensors, some of which refer to these values: without such a cycle, weights are freed as soon as they can be."""
        self.tensors.clear()

    def give(self, value: Value, tensor: Tensor, info: Info) -> None:
        """Make a tensor of the program around this body an input: a tensor of its own over the same memory."""
        self.inference.infos[value] = info
        own = self.tensors[value] = tensor.replace(layouts={}, casts={}, name=value.name)
        self.builder.take_in(own)

    def tensor(self, value: Value) -> Tensor:
        """Return the tensor of a value."""
        found = self.tensors.get(value)
        if found is None:
            if value.constant is None:
                raise NotSupported(f"{value.name!r} reaches the CPUExecutionProvider without a producer")
            info = self.inference.of(value)
            assert info.dtype is not None
            buffer = Buffer(value.constant.nbytes, value.constant)
            found = Tensor(info.dtype, value.constant.shape, buffer, contents=info.contents, name=value.name)
            self.tensors[value] = found
        return found

    def constant(self, value: Value) -> Array | None:
        """Return the array of a constant, or of a value whose elements this program was lowered for."""
        return self.inference.of(value).constant

    def is_read_once(self, value: Value) -> bool:
        """Return True if only the node that is lowered now reads a value, once: none did before it, and none will."""
        return self.remaining.get(value) == 1 and len(value.uses) == 1

    def _add_input(self, value: Value, info: Info) -> None:
        self.inference.infos[value] = info
        tensor = self.tensors[value] = self.builder.add_external(info, value.name)
        assert tensor.buffer is not None
        self.builder.exact.add(tensor.buffer)
        self.builder.result.inputs.append(tensor.buffer)
        self.builder.result.input_infos.append(info)

    def contents(self, value: Value, node: Node) -> tuple[Dim, ...]:
        """Return the elements of a small integer tensor; read between two segments when they are not known."""
        info = self.inference.of(value)
        if info.contents is not None:
            return info.contents
        if info.constant is not None:
            return tuple(int(element) for element in info.constant.reshape(-1))
        count = None if info.shape is None else product(info.shape)
        if not isinstance(count, int):
            raise Open(value)
        if count > CONTENTS_LIMIT:
            raise NotSupported(f"{node} (CPUExecutionProvider): shape operand {value.name!r} has {count} elements").about(node)
        tensor = self.builder.store(self.tensor(value))
        assert tensor.buffer is not None
        if tensor.buffer not in self.builder.result.inputs:
            self.builder.result.items.append(None)
        names = [Symbol(f"{value.name}[{i}]", signed=True) for i in range(count)]
        for i, name in enumerate(names):
            self.builder.result.sources.setdefault(name, SymbolSource(tensor.buffer, i, element=True))
        elements = tuple(symbol(name.name, signed=True) for name in names)
        self.inference.infos[value] = Info(info.type, elements, info.constant)
        return elements

    def do_with(self, tensor: Tensor, value: Value, nodes: Sequence[Node]) -> None:
        """Make `tensor`, made for `value`, the result of the last of the nodes, which read one another: they are done with it."""
        del self.tensors[value]
        for node in nodes:
            self.inference.node(node)
            self.coming.remove(node)
        result = nodes[-1].outputs[0]
        assert result is not None
        self.tensors[result] = tensor

    # --- to and from the outside
    def host(
        self,
        node: Node,
        function: Callable[..., Sequence[Any]],
        python: bool,
        captures: Sequence[Value] = (),
        shared: Collection[int] = (),
    ) -> None:
        """Add a step with the node's inputs and then `captures`; its outputs are the node's."""
        inputs = [None if value is None else self.tensor(value) for value in (*node.inputs, *captures)]
        infos = [None if value is None else self.inference.of(value) for value in node.outputs]
        for value, tensor in zip(node.outputs, self.builder.step(node, function, inputs, infos, python, shared), strict=True):
            if value is not None and tensor is not None:
                tensor.name = value.name
                self.tensors[value] = tensor


class Open(Exception):
    """Lowering cannot go on before the run tells the shape of `value`, or its elements as numbers."""

    def __init__(self, value: Value, numbers: bool = False) -> None:
        super().__init__(value.name)
        self.value, self.numbers = value, numbers
