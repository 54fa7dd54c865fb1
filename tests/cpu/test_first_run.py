"""Whatever types and ranks tell is lowered when a session is made: the first run only binds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite_cpu.program.program import Program

ONES = np.ones(4, np.float32)
LOOP = {"x": ONES, "n": np.array(3), "g": np.array(True)}
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "branches of two shapes": (
        """(float[N] x, bool c) => (float[M] y) { y = If(c) <
            then_branch = a () => (float[P] t) { t = Concat<axis=0>(x, x) }, else_branch = b () => (float[Q] e) { e = Abs(x) }
        > }""",
        {"x": ONES, "c": np.array(True)},
    ),
    "a state that grows": (
        """(float[N] x, int64 n, bool g) => (float[M] y) { y = Loop(n, g, x) <
            body = s (int64 i, bool c, float[K] v) => (bool d, float[L] w) { d = Identity(c) w = Concat<axis=0>(v, v) }
        > }""",
        LOOP,
    ),
    "a branch in a loop": (
        """(float[N] x, int64 n, bool g) => (float[M] y) { y = Loop(n, g, x) <
            body = s (int64 i, bool c, float[K] v) => (bool d, float[L] w) { d = Identity(c) w = If(c) <
                then_branch = a () => (float[R] t) { t = Concat<axis=0>(v, v) }, else_branch = b () => (float[S] e) { e = Abs(v) }
            > }
        > }""",
        LOOP,
    ),
    "a scan": (
        """(float[N] s, float[T,N] x) => (float[N] o, float[T,M] y) { o, y = Scan<num_scan_inputs=1,
            body = b (float[N] a, float[N] v) => (float[N] c, float[M] d) { c = Abs(v) d = Concat<axis=0>(a, v) }
        >(s, x) }""",
        {"s": ONES, "x": np.ones((3, 4), np.float32)},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_first_run_lowers_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, feeds = MODELS[name]
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {text}')
    made = ort_lite.InferenceSession(proto, providers=["CPUExecutionProvider"])

    def lowered(*arguments: Any, **more: Any) -> None:
        pytest.fail(f"the first run lowers {[node.op_type for node in arguments[1]]}")

    monkeypatch.setattr(Program, "__init__", lowered)
    made.run(None, feeds)


def test_what_only_the_run_tells_is_lowered_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank of a Reshape's result."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> main (float[N] x, int64[K] s) => (y) { z = Reshape(x, s) y = Abs(z) }'
    )
    made = ort_lite.InferenceSession(proto, providers=["CPUExecutionProvider"])
    lowered = list[int]()
    make = Program.__init__

    def counted(*arguments: Any, **more: Any) -> None:
        lowered.append(len(arguments[1]))
        make(*arguments, **more)

    monkeypatch.setattr(Program, "__init__", counted)
    feeds = {"x": ONES, "s": np.array([2, 2])}
    assert made.run(None, feeds)[0].shape == (2, 2)
    made.run(None, feeds)
    assert len(lowered) == 1
