"""Small models for documents, and what holds of every document."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import onnx.parser

import ort_lite
from ort_lite.tools.view.document import Document

HEADER = '<ir_version: 10, opset_import: ["": 21]> main '
SAMPLE = ["SampleExecutionProvider", "CPUExecutionProvider"]

CHAIN = """(float[N, 4] x) => (float[N, 4] y) <float[4] two = {2, 2, 2, 2}, float one = {1}> {
    [sum] s = Add(two, one) [copy] c = Identity(x) [scale] m = Mul(c, s) [act] r = Relu(m) [last] y = Softmax(r) }"""
BODIES = """(float[4] x, bool c, int64 n) => (float[4] y, float[4] z) {
    [choice] y = If (c) <
        then_branch = t () => (float[4] a) { [same] i = Identity(x) [twice] a = Add(i, x) },
        else_branch = e () => (float[4] b) { [square] b = Mul(x, x) }>
    [turns] z = Loop (n, c, x) <
        body = l (int64 k, bool go, float[4] v) => (bool on, float[4] w) { [keep] on = Identity(go) [more] w = Add(v, y) }> }"""


def model(text: str) -> Any:
    return onnx.parser.parse_model(HEADER + text)


def session_of(source: Any, providers: Sequence[Any] = SAMPLE, **keywords: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(source, providers=list(providers), **keywords)


def moments(document: Document) -> list[set[str]]:
    """The keys of the nodes of each stage. Fails where one goes that is not there, or comes that is."""
    found: list[set[str]] = []
    now: set[str] = set()
    for stage in document["stages"]:
        removed, added = set(stage["removed"]), set(stage["added"])
        assert len(removed) == len(stage["removed"])
        assert len(added) == len(stage["added"])
        assert removed <= now
        now = now - removed
        assert now.isdisjoint(added)
        now = now | added
        found.append(now)
        names = [document["nodes"][key]["name"] for key in now]
        assert len(names) == len(set(names)), stage["id"]
    return found


def partitioned(document: Document) -> set[str]:
    place = [stage["id"] for stage in document["stages"]].index("partitioned")
    return moments(document)[place]


def check(document: Document) -> None:
    """What the scripts of the page rely on: plain JSON, and every key leads somewhere."""
    assert json.loads(json.dumps(document, allow_nan=False)) == json.loads(json.dumps(document))
    nodes, values = document["nodes"], document["values"]
    assert set(_node_keys(document)) <= nodes.keys()
    assert set(_value_keys(document)) <= values.keys()
    assert partitioned(document) == document["placements"].keys()
    assert list(_unmade(document)) == []
    paths = {body["path"] for body in document["graphs"]}
    assert {node["graph"] for node in nodes.values()} <= paths
    assert {path for node in nodes.values() for path in node.get("bodies", [])} <= paths
    assert {node["operator"] for node in nodes.values()} == document["operators"].keys()
    assert {place["partition"] for place in document["placements"].values()} <= {p["name"] for p in document["partitions"]}


def _unmade(document: Document) -> Iterator[tuple[str, str]]:
    """Values that are read when it is partitioned, or compiled, and that nothing makes there: (stage, value)."""
    nodes, values = document["nodes"], document["values"]
    given = {value for body in document["graphs"] for value in body["inputs"]}
    given.update(value for value, known in values.items() if "constant" in known)
    keys: set[str] = set()
    for stage in document["stages"]:
        keys = (keys - set(stage["removed"])) | set(stage["added"])
        if stage["id"] not in ("partitioned", "compiled"):
            continue
        made = given.union(*(nodes[key]["outputs"] for key in keys))
        read = {value for key in keys for value in nodes[key]["inputs"] if value is not None}
        yield from ((stage["title"], value) for value in sorted(read - made))


def _node_keys(document: Document) -> Iterator[str]:
    for stage in document["stages"]:
        yield from (*stage["removed"], *stage["added"])
        for change in stage["changes"]:
            yield from (*change["removed"], *change["added"])
    for part in document["partitions"]:
        yield from part["nodes"]
        for fused in part["fused"]:
            yield from (fused["name"], *fused["parts"])
    yield from (body["node"] for body in document["graphs"] if body["node"] is not None)
    yield from (*document["costs"], *document["kernels"])


def _value_keys(document: Document) -> Iterator[str]:
    for node in document["nodes"].values():
        yield from (key for key in (*node["inputs"], *node["outputs"], *node.get("captures", ())) if key is not None)
    for body in document["graphs"]:
        yield from (*body["inputs"], *body["outputs"])
    for part in document["partitions"]:
        yield from (*part["inputs"], *part["outputs"])
    yield from (copy["value"] for copy in document["copies"])
