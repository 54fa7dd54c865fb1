"""The trace of creation: what making a session did, where somebody asked for it."""

import json
from typing import Any

import onnx.parser
import pytest

import ort_lite
from ort_lite.log.events import Stream, no_span
from ort_lite.session.creation import CreationEvent, CreationReport, CreationTrace
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider

MODEL = """<ir_version: 8, opset_import: ["": 17]> main (float[N] x) => (float[N] y) {
    a = Abs(x)  i = Identity(a)  n = Neg(i)  y = Tanh(n)
}"""


def session(trace: str = "1") -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.creation_trace", trace)
    providers = [NumpyProvider(lambda node: node.op_type == "Abs"), CpuStandIn()]
    return ort_lite.InferenceSession(onnx.parser.parse_model(MODEL), options, providers=providers)


def traced() -> CreationTrace:
    found = session().creation_trace
    assert found is not None
    return found


def facts(found: CreationTrace, name: str) -> list[dict[str, Any]]:
    return [dict(event.facts) for event in found.events if event.name == name]


def test_the_stages_are_in_order_and_inside_of_the_whole() -> None:
    found = traced()
    stages = [event.name for event in found.events if event.depth == 1]
    assert stages == ["model_loading_array", "transform", "partition", "compile"]
    whole, *others = found.events
    assert (whole.name, whole.depth) == ("session_initialization", 0)
    assert all(whole.begin <= event.begin <= event.end <= whole.end for event in others)
    assert [event.begin for event in others] == sorted(event.begin for event in others)


def test_each_event_says_what_was_done() -> None:
    found = traced()
    fired = {event.name: dict(event.facts) for event in found.events if event.facts.get("fired")}
    assert fired == {"remove_no_op": {"nodes_before": 4, "nodes_after": 3, "fired": 1}}
    assert len(facts(found, "inference")) == 1
    assert facts(found, "get_capability") == [
        {"provider": "NumpyExecutionProvider", "offered": 3, "claimed": 1},
        {"provider": "CPUExecutionProvider", "offered": 2, "claimed": 2},
    ]
    assert facts(found, "compile_partitions") == [
        {"provider": "NumpyExecutionProvider", "partitions": "NumpyExecutionProvider_0", "nodes": 1},
        {"provider": "CPUExecutionProvider", "partitions": "CPUExecutionProvider_0", "nodes": 2},
    ]
    assert facts(found, "partition") == [{"partitions": 2, "copies": 0}]


def test_it_prints_a_table_with_a_row_for_each_kind() -> None:
    rows = {row[0].strip(): row for row in traced().table()}
    assert rows["remove_no_op"][4:] == ("4 -> 3", "fired 1")
    assert int(rows["remove_no_op"][2]) >= 1
    assert str(traced()).splitlines()[0].split() == ["what", "provider", "calls", "ms", "nodes", "details"]
    data = traced().as_dict()
    assert json.loads(json.dumps(data)) == data


def test_rows_are_apart_where_they_are_inside_of_different_things() -> None:
    made = [("a", 0, {}), ("x", 1, {"n": 1}), ("x", 1, {"n": 2}), ("b", 0, {}), ("x", 1, {"n": 4})]
    events = tuple(CreationEvent(name, depth, 0, 1_000_000, found) for name, depth, found in made)
    rows = CreationTrace(events).table()
    assert [(row[0], row[2], row[3], row[5]) for row in rows] == [
        ("a", "1", "1.00", ""),
        ("  x", "2", "2.00", "n 3"),
        ("b", "1", "1.00", ""),
        ("  x", "1", "1.00", "n 4"),
    ]


def test_what_fails_is_over_too() -> None:
    stream, report = Stream(), CreationReport()
    stream.subscribe(report)
    with pytest.raises(ZeroDivisionError), stream.span("outer"), stream.span("inner", provider="P"):
        raise ZeroDivisionError
    with stream.span("next"):
        pass
    assert [(event.name, event.depth) for event in report.trace().events] == [("outer", 0), ("inner", 1), ("next", 0)]


def test_nobody_listens_who_was_not_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **more: Any) -> None:
        raise AssertionError("watched")

    monkeypatch.setattr("ort_lite.transform.transform._WatchedDriver.__init__", refuse)
    monkeypatch.setattr("ort_lite.session.creation.CreationReport.__init__", refuse)
    assert session("0").creation_trace is None
    with no_span("anything", provider="P") as found:
        assert found == {"provider": "P"}


def test_the_trace_stays_when_the_session_is_closed() -> None:
    made = session()
    made.close()
    assert made.creation_trace is not None
