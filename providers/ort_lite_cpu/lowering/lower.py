"""Lowering: nodes with symbolic shapes -> instructions over buffers. Done once, whatever shapes come later.

Nodes are lowered in order, each after its shapes are inferred from what is known by then. Values whose contents are known as
symbolic integers cost nothing: their nodes vanish. Where a shape depends on data, the segment ends: the tensor that tells is
read between two segments and its elements become symbols of the next one. Where not even a rank is known, or a rule needs numbers
and not symbols, lowering ends with a `DeferredSuffix`: the rest is lowered during the run, once for each combination of what came.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ort_lite.errors import Fail, InvalidArgument, OrtLiteError, format_error
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node, SequenceType, Value
from ort_lite.graph.released import check_there
from ort_lite.inference import ContentsUnknown, Info, NumbersUnknown, RankUnknown
from ort_lite.native.checkpoint import checkpoint
from ort_lite.shapes import equal
from ort_lite_cpu.lowering.lowered import NOWHERE, HostStep, LoweringResult
from ort_lite_cpu.lowering.operand_requirements import require_shapes
from ort_lite_cpu.lowering.tensor import Buffer, Tensor
from ort_lite_cpu.lowering.values import Open, Values
from ort_lite_cpu.lowering.widening import lower
from ort_lite_cpu.operators.copying import duplicate
from ort_lite_cpu.registry import find


class Lowering:
    """The lowering of the nodes of a program; operators get a `NodeLowering` of it."""

    def __init__(self, values: Values) -> None:
        self.values, self.builder, self.inference = values, values.builder, values.inference
        own = {"rules": values.inference.rules, "options": values.options, "bodies": values.bodies}
        self._program = partial(values.program, **own)

    # --- nodes
    def run(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> LoweringResult:
        """Lower all nodes, then decide where the outputs lie. Every 16th node is a checkpoint."""
        for node in nodes:
            for value in node.reads():
                if value is not None:
                    self.values.remaining[value] = self.values.remaining.get(value, 0) + 1
                    if value.constant is not None:
                        check_there(value, f"lowering {node}")
        for value in outputs:
            self.values.remaining[value] = self.values.remaining.get(value, 0) + 1
        self.values.coming.update(nodes)
        for position, node in enumerate(nodes):
            if not position & 15:
                checkpoint()
            try:
                if node in self.values.coming:
                    self._node(node)
            except Open as open_:
                self._end_with_tail([left for left in nodes[position:] if left in self.values.coming], outputs, open_)
                break
            self.values.coming.discard(node)
            for value in node.inputs:
                if value is not None:
                    self.values.remaining[value] -= 1
        for value in outputs:
            self.builder.result.outputs.append(self._as_output(value))
        return self.builder.result

    def _end_with_tail(self, nodes: Sequence[Node], outputs: Sequence[Value], open_: Open) -> None:
        """Add a step that lowers and runs `nodes` during the run."""
        from ort_lite_cpu.lowering.deferred_suffix import DeferredSuffix

        for node in nodes:
            registration = find(node)
            if registration is not None and registration.check is not None:
                registration.check(node)
        made = {value for node in nodes for value in node.outputs if value is not None}
        needed = [v for node in nodes for v in node.reads() if v is not None and v.constant is None]
        live = {value: self.inference.of(value) for value in needed if value not in made}
        wanted = [value for value in outputs if value in made]
        step = DeferredSuffix(self._program, nodes, live, wanted, open_.value, open_.numbers)
        inputs = tuple(self.builder.pin(self.values.tensor(value)) for value in live)
        results = []
        for value in wanted:
            buffer = Buffer(0)
            tensor = self.values.tensors[value] = Tensor("", (), buffer, name=value.name, ranked=False)
            self.inference.infos[value] = Info()
            self.builder.result.primary[buffer] = tensor
            results.append(tensor)
        self.builder.result.items.append(HostStep(nodes[0], step, inputs, tuple(results), False, step.programs))

    def _node(self, node: Node) -> None:
        self.builder.owner = node
        infos = self._infer(node)
        require_shapes(self.values, node)
        made = [(value, info) for value, info in zip(node.outputs, infos, strict=True) if value is not None]
        if made and all(info.contents is not None for _, info in made):
            self._require_quotients(node)
            for value, info in made:
                assert info.shape is not None and info.dtype is not None
                self.values.tensors[value] = Tensor(info.dtype, info.shape, contents=info.contents, name=value.name)
            return
        registration = find(node, lambda value: self.inference.of(value).dtype or value.dtype)
        if registration is None:
            raise NotSupported(f"{node} (CPUExecutionProvider): no kernel for {node.domain or 'ai.onnx'}.{node.op_type}").about(
                node
            )
        try:
            lower(self.values, registration, node, infos)
            self._check_pin(node)
        except (OrtLiteError, Open):
            raise
        except Exception as error:
            given = ", ".join("(left out)" if v is None else f"{v.name!r} {self.inference.of(v).type}" for v in node.inputs)
            raise Fail(
                f"{node} (CPUExecutionProvider): it cannot be lowered for inputs {given or 'none'} and these attributes: "
                + format_error(error)
            ).about(node) from error

    def _check_pin(self, node: Node) -> None:
        """Raise InvalidArgument if config entry `ort_lite.kernels` names the node and it has no candidates."""
        name = dict(self.values.options.pins).get(node.name)
        if name is not None and node not in self.builder.result.choices:
            raise InvalidArgument(
                f"{node} (CPUExecutionProvider): ort_lite.kernels asks for {name!r}: the operator has no choice of kernels"
            ).about(node)

    def _require_quotients(self, node: Node) -> None:
        """Require divisors of sizes not to be 0: expressions would go on with 0."""
        if node.op_type not in ("Div", "Mod") or node.domain:
            return
        value = node.inputs[1]
        assert value is not None
        for element in self.inference.of(value).contents or ():
            if not isinstance(element, int):
                message = f"an element of the divisor {value.name!r} is 0; integers have no quotient and no remainder by 0"
                self.builder.require(node, equal(equal(element, 0), 0), message, ())

    def _infer(self, node: Node) -> list[Info]:
        """Infer the node's outputs once enough is known of its inputs: each question is asked once."""
        asked: set[int] = set()
        while True:
            try:
                return self.inference.node(node)
            except (ContentsUnknown, RankUnknown) as unknown:
                value = node.inputs[unknown.index]
                assert value is not None
                if unknown.index in asked or self._is_exact(value, unknown):
                    raise NotSupported(
                        f"{node} (CPUExecutionProvider): its shape rule asks more of {value.name!r} than can be known: {unknown!r}"
                    ).about(node, input=value.name) from None
                if isinstance(unknown, RankUnknown | NumbersUnknown):
                    raise Open(value, numbers=isinstance(unknown, NumbersUnknown)) from None
                asked.add(unknown.index)
                self.values.contents(value, node)

    def _is_exact(self, value: Value, unknown: ContentsUnknown | RankUnknown) -> bool:
        """Return True if a deferred suffix already has what the rule asks for."""
        info = self.inference.of(value)
        if isinstance(unknown, RankUnknown):
            return info.shape is not None and all(isinstance(dim, int) for dim in info.shape)
        return isinstance(unknown, NumbersUnknown) and info.constant is not None

    # --- outputs
    def _as_output(self, value: Value) -> Tensor:
        tensor = self.values.tensor(value)
        info = self.inference.of(value)
        if isinstance(info.type, SequenceType):
            return tensor  # a list of its own; whoever hands it to the user copies the elements
        tensor = self.builder.store(tensor)
        buffer = tensor.buffer
        assert buffer is not None
        taken = {other.buffer for other in self.builder.result.outputs}
        node = self.builder.owner = value.producer or NOWHERE
        if buffer not in taken and not self.builder.is_shared(buffer):
            return self.builder.pin(tensor, node)
        if not tensor.ranked or tensor.dtype == "string":
            [made] = self.builder.step(
                NOWHERE, lambda x: [duplicate(node, x)], [tensor], [info], python=tensor.dtype == "string"
            )
            assert made is not None
            return made
        return self.builder.pin(self.builder.copy(tensor, node))
