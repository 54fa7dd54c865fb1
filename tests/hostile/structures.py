"""Models whose structure makes no sense: (name, model, words that the refusal has)."""

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Model = onnx.ModelProto
node, info = helper.make_node, helper.make_tensor_value_info


def model(
    nodes: Sequence[onnx.NodeProto] | None = None,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    opsets: dict[str, int] | list[tuple[str, int]] | None = None,
    ir_version: int = 10,
    **more: Any,
) -> Model:
    """y = Relu(x), or what is given."""
    graph = helper.make_graph(
        nodes or [node("Relu", ["x"], ["y"], "n")],
        "g",
        [info("x", FLOAT, [2])] if inputs is None else inputs,
        [info("y", FLOAT, None)] if outputs is None else outputs,
        **more,
    )
    imported = {"": 21} if opsets is None else opsets
    pairs = imported.items() if isinstance(imported, dict) else imported
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(*pair) for pair in pairs])
    made.ir_version = ir_version
    return made


def attribute(kind: int, **fields: Any) -> Model:
    """LeakyRelu whose alpha has the fields."""
    made = node("LeakyRelu", ["x"], ["y"], "n")
    made.attribute.add(name="alpha", type=kind, **fields)
    return model([made])


def weight(dims: list[int], raw: bytes = bytes(4), kind: int = FLOAT, name: str = "w") -> TensorProto:
    return TensorProto(name=name, data_type=kind, dims=dims, raw_data=raw)


def body(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[tuple[str, int]], outputs: Sequence[tuple[str, int]]
) -> onnx.GraphProto:
    typed = [info(name, kind, None) for name, kind in (*inputs, *outputs)]
    return helper.make_graph(nodes, "body", typed[: len(inputs)], typed[len(inputs) :])


def same(source: str, target: str) -> onnx.NodeProto:
    return node("Identity", [source], [target])


def scan(**attributes: Any) -> Model:
    step = body([same("s", "o")], [("s", FLOAT)], [("o", FLOAT)])
    given: dict[str, Any] = {"num_scan_inputs": 1, "body": step} | attributes
    return model([node("Scan", ["x"], ["y"], "n", **given)])


def branches(then: onnx.GraphProto | None, otherwise: onnx.GraphProto | None, condition: str = "c") -> Model:
    given = {"then_branch": then, "else_branch": otherwise}
    chosen = node("If", [condition], ["y"], "n", **{name: graph for name, graph in given.items() if graph is not None})
    return model([chosen], [info("x", FLOAT, [2]), info("c", BOOL, [])])


def loop(nodes: Sequence[onnx.NodeProto], inputs: Sequence[tuple[str, int]], outputs: Sequence[tuple[str, int]]) -> Model:
    return model([node("Loop", ["", "", "x"], ["y"], "n", body=body(nodes, inputs, outputs))])


def calling(*functions: onnx.FunctionProto, inputs: int = 1) -> Model:
    made = model([node("f", ["x"] * inputs, ["y"], "n", domain="my")], opsets={"": 21, "my": 1})
    made.functions.extend(functions)
    return made


def function(name: str, called: str, domain: str = "my") -> onnx.FunctionProto:
    return helper.make_function(
        "my",
        name,
        ["a"],
        ["b"],
        [node(called, ["a"], ["b"], domain=domain)],
        [helper.make_opsetid(d, v) for d, v in (("", 21), ("my", 1))],
    )


def without_type(element: int | None) -> Model:
    made = model()
    made.graph.input[0].type.tensor_type.ClearField("elem_type")
    if element is not None:
        made.graph.input[0].type.tensor_type.elem_type = element
    return made


ONE = body([same("x", "a")], [], [("a", FLOAT)])
WHOLE = body([node("Cast", ["x"], ["a"], to=INT64)], [], [("a", INT64)])
TWO = body([same("x", "a"), same("x", "b")], [], [("a", FLOAT), ("b", FLOAT)])
TAKES = body([same("q", "a")], [("q", FLOAT)], [("a", FLOAT)])
STEP = [("i", INT64), ("d", BOOL), ("s", FLOAT)]

CASES: dict[str, tuple[Callable[[], Model], str]] = {
    "opset 0": (lambda: model(opsets={"": 0}), "opset 0 of ai.onnx"),
    "opset 999": (lambda: model(opsets={"": 999}), "opset 999 of ai.onnx"),
    "opset 99 of ai.onnx.ml": (lambda: model(opsets={"": 21, "ai.onnx.ml": 99}), "opset 99 of ai.onnx.ml"),
    "a domain of its own below 1": (lambda: model(opsets={"": 21, "my": -1}), "opset -1 of my"),
    "no opset": (lambda: model(opsets={}), "imports nothing"),
    "IR version 0": (lambda: model(ir_version=0), "IR version 0"),
    "IR version 99": (lambda: model(ir_version=99), "IR version 99"),
    "no type": (lambda: without_type(None), "'x' has no type"),
    "type 0": (lambda: without_type(0), "'x' has no type"),
    "type 99": (lambda: without_type(99), "99"),
    "an input too large": (lambda: model(inputs=[info("x", FLOAT, [2**62, 4])]), "'x' has dimensions"),
    "an initialiser of another type": (
        lambda: model(inputs=[info("x", FLOAT, [2]), info("w", INT64, [1])], initializer=[weight([1])]),
        "initialiser 'w' is tensor(float)",
    ),
    "an initialiser of another size": (
        lambda: model(inputs=[info("x", FLOAT, [2]), info("w", FLOAT, [5])], initializer=[weight([1])]),
        "initialiser 'w' has shape [1]",
    ),
    "an initialiser of another rank": (
        lambda: model(inputs=[info("x", FLOAT, [2]), info("w", FLOAT, [1, 1])], initializer=[weight([1])]),
        "initialiser 'w' has shape [1]",
    ),
    "an output of another type": (lambda: model(outputs=[info("y", INT64, [2])]), "'y') is tensor(float)"),
    "a value of another type": (
        lambda: model([node("Relu", ["x"], ["z"], "n"), node("Relu", ["z"], ["y"])], value_info=[info("z", INT64, [2])]),
        "'z') is tensor(float)",
    ),
    "two inputs of a name": (lambda: model(inputs=[info("x", FLOAT, [2])] * 2), "'x' is already an input"),
    "an input without a name": (lambda: model(inputs=[info("x", FLOAT, [2]), info("", FLOAT, [2])]), "no name"),
    "two initialisers of a name": (lambda: model(initializer=[weight([1])] * 2), "'w' is already an initialiser"),
    "a name that nobody makes": (lambda: model([node("Relu", ["q"], ["y"], "n")]), "'q'"),
    "an output that nobody makes": (lambda: model(outputs=[info("q", FLOAT, [2])]), "'q'"),
    "a cycle": (lambda: model([node("Add", ["x", "z"], ["y"], "n"), node("Relu", ["y"], ["z"])]), "cycle"),
    "a node that reads itself": (lambda: model([node("Add", ["x", "y"], ["y"], "n")]), "cycle"),
    "two nodes that make it": (
        lambda: model([node("Relu", ["x"], ["y"], "n"), node("Abs", ["x"], ["y"], "m")]),
        "'y' is already",
    ),
    "no operator": (lambda: model([node("", ["x"], ["y"], "n")]), "'n'"),
    "an unknown operator": (lambda: model([node("Bogus", ["x"], ["y"], "n")]), "Bogus"),
    "an unknown domain": (lambda: model([node("Relu", ["x"], ["y"], "n", domain="nobody")]), "'nobody' is not imported"),
    "no input": (lambda: model([node("Relu", [], ["y"], "n")]), "has 0 inputs"),
    "an input left out": (lambda: model([node("Relu", [""], ["y"], "n")]), "input 0 (X) is left out"),
    "too many inputs": (lambda: model([node("Relu", ["x", "x"], ["y"], "n")]), "has 2 inputs"),
    "too many outputs": (lambda: model([node("Relu", ["x"], ["y", "z"], "n")]), "has 2 outputs"),
    "an unknown attribute": (lambda: model([node("Relu", ["x"], ["y"], "n", beta=1.0)]), "'beta' is not known"),
    "an attribute of another kind": (lambda: attribute(2, i=1), "'alpha' is INT"),
    "an attribute that says another kind": (lambda: attribute(1, i=5), "'alpha' says that it is FLOAT"),
    "an attribute of no kind": (lambda: attribute(0), "'alpha'"),
    "too few bytes": (lambda: model(initializer=[weight([3])]), "need 12 bytes"),
    "too many bytes": (lambda: model(initializer=[weight([1], bytes(8))]), "need 4 bytes"),
    "2**62 elements": (lambda: model(initializer=[weight([2**62])]), "4611686018427387904"),
    "2**64 elements": (lambda: model(initializer=[weight([2**32, 2**32], b"")]), "4294967296"),
    "2**62 elements, but for a 0": (lambda: model(initializer=[weight([0, 2**62], b"")]), "4611686018427387904"),
    "-1 elements": (lambda: model(initializer=[weight([-1])]), "[-1] are negative"),
    "-1 times -1 elements": (lambda: model(initializer=[weight([-1, -1])]), "[-1, -1] are negative"),
    "70 dimensions": (lambda: model(initializer=[weight([1] * 70)]), "70 dimensions"),
    "an initialiser of type 0": (lambda: model(initializer=[weight([1], bytes(4), 0)]), "element type 0"),
    "an initialiser of type 999": (lambda: model(initializer=[weight([1], bytes(4), 999)]), "element type 999"),
    "raw strings": (lambda: model(initializer=[weight([1], b"abcd", 8)]), "1 strings"),
    "branches of other counts": (lambda: branches(TWO, ONE), "outputs of its body"),
    "branches of other types": (lambda: branches(ONE, WHOLE), "types differ"),
    "a branch with inputs": (lambda: branches(TAKES, ONE), "inputs of its body"),
    "no else_branch": (lambda: branches(ONE, None), "'else_branch' (GRAPH) is missing"),
    "a condition of numbers": (lambda: branches(ONE, ONE, "x"), "tensor(float)"),
    "branches without outputs": (lambda: branches(body([], [], []), body([], [], [])), "outputs of its body"),
    "a loop with too few outputs": (lambda: loop([same("d", "e")], STEP, [("e", BOOL)]), "outputs of its body"),
    "a loop with too few inputs": (
        lambda: loop([same("d", "e"), same("x", "t")], STEP[:2], [("e", BOOL), ("t", FLOAT)]),
        "inputs of its body",
    ),
    "a state of another type": (
        lambda: loop([same("d", "e"), node("Cast", ["s"], ["t"], to=INT64)], STEP, [("e", BOOL), ("t", INT64)]),
        "element types differ",
    ),
    "a loop whose condition is a number": (lambda: loop([same("s", "t")], STEP, [("i", INT64), ("t", FLOAT)]), "types differ"),
    "a scan of nothing": (lambda: scan(num_scan_inputs=0), "num_scan_inputs"),
    "a scan of more than there is": (lambda: scan(num_scan_inputs=5), "num_scan_inputs is 5"),
    "a scan along no axis": (lambda: scan(scan_input_axes=[3]), "axis 3"),
    "a scan along two axes": (lambda: scan(scan_input_axes=[0, 0]), "scan_input_axes [0, 0]"),
    "a scan in direction 2": (lambda: scan(scan_input_directions=[2]), "scan_input_directions [2]"),
    "a scan in two directions": (lambda: scan(scan_input_directions=[0, 0]), "scan_input_directions [0, 0]"),
    "a scan out of two axes": (lambda: scan(scan_output_axes=[0, 0]), "scan_output_axes [0, 0]"),
    "a scan of a body without inputs": (lambda: scan(body=ONE), "inputs of its body"),
    "a function that calls itself": (lambda: calling(function("f", "f")), "calls itself"),
    "functions that call each other": (lambda: calling(function("f", "g"), function("g", "f")), "calls itself"),
    "a function twice": (lambda: calling(function("f", "Relu", ""), function("f", "Abs", "")), "'f' of domain 'my' twice"),
    "a call with too many inputs": (lambda: calling(function("f", "Relu", ""), inputs=2), "2 inputs"),
    "a thousand functions deep": (
        lambda: calling(
            function("f", "f1"), *(function(f"f{k}", f"f{k + 1}") for k in range(1, 1000)), function("f1000", "Relu", "")
        ),
        "one in the other",
    ),
}
