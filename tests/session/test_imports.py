"""Nodes of other opset versions than the model imports, before it is saved."""

import onnx
import pytest

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Model, Node, TensorType, Value
from ort_lite.load.save import to_proto
from ort_lite.session.older_opsets import bring_to_imports, convert_to_imports

FLOAT = TensorType("float32", (2, 3))


def model(imported: int, op_type: str, version: int, *, inside: bool = False, **attributes: object) -> Model:
    """One node on x, in both branches of an If if `inside`."""
    x, flag = Value("x", FLOAT), Value("flag", TensorType("bool", ()))
    graphs = []
    for name in ("then", "else") if inside else ("main",):
        node = Node(op_type, [x], [Value(f"{name}_y", FLOAT)], attributes, version=version, name=name)
        graphs.append(Graph(name, [] if inside else [x]))
        graphs[-1].append(node)
        graphs[-1].set_outputs([node.output])
    if not inside:
        return Model(graphs[0], {"": imported}, ir_version=7)
    branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
    main, node = Graph("main", [x, flag]), Node("If", [flag], [Value("y", FLOAT)], branches, version=imported, name="if")
    main.append(node)
    main.set_outputs([node.output])
    return Model(main, {"": imported}, ir_version=7)


def test_a_model_whose_nodes_are_of_its_imports_stays_itself() -> None:
    given = model(13, "Relu", 13)
    assert convert_to_imports(given) is given
    same = model(13, "HardSigmoid", 6)  # the operator did not change between the two
    assert convert_to_imports(same) is same


@pytest.mark.parametrize("inside", [False, True])
def test_a_node_that_means_the_same_takes_the_imported_version_on(inside: bool) -> None:
    given = model(11, "Cast", 13, inside=inside, to=1)
    made = convert_to_imports(given)
    assert {node.version for node in made.graph.all_nodes()} == {11}
    assert 13 in {node.version for node in given.graph.all_nodes()}, "the model that was given stays as it is"
    onnx.checker.check_model(to_proto(made))


def test_a_composed_operator_inside_a_body_is_taken_apart() -> None:
    made = convert_to_imports(model(11, "HardSwish", 14, inside=True))
    assert [node.op_type for node in made.graph.all_nodes()] == ["If", "HardSigmoid", "Mul", "HardSigmoid", "Mul"]
    onnx.checker.check_model(to_proto(made))


def test_what_has_no_form_there_is_for_save_to_refuse() -> None:
    given = model(17, "Gelu", 20)
    bring_to_imports(given)
    message = r"Gelu 'main' is of ai\.onnx 20, another version .* ai\.onnx 17, which the model imports: save the model"
    with pytest.raises(InvalidGraph, match=message):
        to_proto(given)
