"""An Assignment as text and as JSON."""

import json

from ort_lite.inference import ShapeRules
from ort_lite.partition.assignment import Assignment
from ort_lite.partition.partition import partition
from tests.provider.numpy_provider import CpuStandIn, OtherDevice
from tests.provider.texts import graph

TEXT = """(float[3] x, bool flag) => (float[3] y) {
    a = Abs(x)
    b = If (flag) <
        then_branch = yes () => (float[3] t) { t = Tanh(a) },
        else_branch = no () => (float[3] e) { e = Relu(x) }
    >
    y = Abs(b)
}"""


def assignment() -> Assignment:
    providers = [OtherDevice(lambda node: node.output.name in "aty"), CpuStandIn()]
    return partition(graph(TEXT), providers, ShapeRules(()))


def test_it_prints_a_line_for_each_node_and_for_what_is_between() -> None:
    lost = "CPUExecutionProvider lost: earlier provider BoxExecutionProvider takes it"
    assert [line.rstrip() for line in str(assignment()).splitlines()] == [
        "node      operator  runs on               partition               why not the others",
        f"Abs_0     Abs       BoxExecutionProvider  BoxExecutionProvider_0  {lost}",
        "If_0      If        CPUExecutionProvider  CPUExecutionProvider_0  BoxExecutionProvider declined choice: not wanted",
        f"  Tanh_0  Tanh      BoxExecutionProvider  BoxExecutionProvider_2  {lost}",
        "  Relu_0  Relu      CPUExecutionProvider  CPUExecutionProvider_1  BoxExecutionProvider declined choice: not wanted",
        f"Abs_1     Abs       BoxExecutionProvider  BoxExecutionProvider_1  {lost}",
        "copy 'x' cpu:0 -> box:0 for BoxExecutionProvider_0",
        "copy 'a' box:0 -> cpu:0 for CPUExecutionProvider_0",
        "copy 'b' cpu:0 -> box:0 for BoxExecutionProvider_1",
        "copy 'y' box:0 -> cpu:0 for output",
        "BoxExecutionProvider_1 is apart from BoxExecutionProvider_0: joined they would make a cycle through If 'If_0'",
        "in If 'If_0'.then_branch: copy 'a' cpu:0 -> box:0 for BoxExecutionProvider_2",
        "in If 'If_0'.then_branch: copy 't' box:0 -> cpu:0 for output",
    ]


def test_its_json_holds_the_same() -> None:
    data = json.loads(assignment().to_json())
    assert data["providers"] == ["BoxExecutionProvider", "CPUExecutionProvider"]
    assert [level["graph"] for level in data["levels"]] == ["", "If 'If_0'.then_branch", "If 'If_0'.else_branch"]
    assert data["levels"][0]["partitions"][0] == {
        "name": "BoxExecutionProvider_0",
        "device": "box:0",
        "nodes": ["Abs_0"],
        "inputs": ["x"],
        "outputs": ["a"],
        "host_values": [],
        "bytes": {"x": 12, "a": None},
    }
    assert data["levels"][0]["copies"][0] == {
        "value": "x",
        "bytes": 12,
        "route": ["cpu:0", "box:0"],
        "by": ["BoxTransfer"],
        "reader": "BoxExecutionProvider_0",
    }
    assert data["levels"][0]["apart"] == [
        {"first": "BoxExecutionProvider_0", "second": "BoxExecutionProvider_1", "through": "If_0"}
    ]
    assert data["nodes"][1] == {
        "node": "If_0",
        "operator": "If",
        "depth": 0,
        "provider": "CPUExecutionProvider",
        "partition": "CPUExecutionProvider_0",
        "reasons": [{"provider": "BoxExecutionProvider", "verdict": "declined", "code": "choice", "detail": "not wanted"}],
        "rule": "",
        "inserted": "",
    }
    assert [node["depth"] for node in data["nodes"]] == [0, 0, 1, 1, 0]
