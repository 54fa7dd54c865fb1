"""A server in a process of its own: the client's messages and the server's have the same names, which one process cannot hold.

python serving.py '{"models": ["double"], "limits": {...}, "batching": {...}}'
"""

import asyncio
import json
import sys
import time
from typing import Any

import onnx.parser
from ort_lite_serve import Batching, Limits, ServedModel, Server
from ort_lite_serve.command import run

import ort_lite

DOUBLE = '<ir_version: 10, opset_import: ["": 21]> double (float[N, 3] x) => (float[N, 3] y) { y = Add(x, x) }'
TEXTS = {
    "double": DOUBLE,
    "slow": DOUBLE,
    "picky": DOUBLE,
    "texts": '<ir_version: 10, opset_import: ["": 21]> texts (string[N] s) => (string[N] t) { t = Identity(s) }',
    "halves": """<ir_version: 10, opset_import: ["": 21]> halves (float16[N] a, bfloat16[N] b) => (float16[N] c, bfloat16[N] d)
        { c = Identity(a)  d = Identity(b) }""",
    "fixed": """<ir_version: 10, opset_import: ["": 21]> fixed (int64[2] a, bool[2] b) => (int64[2] c)
        { z = Neg(a)  c = Where(b, a, z) }""",
    "loop": """<ir_version: 10, opset_import: ["": 21]> loop (float[2] x) => (float[2] y) <int64 many = {1000000000}, bool go = {1}>
        { y = Loop(many, go, x) <body = body (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = Identity(c) w = Neg(v) }> }""",
}
NAP = 0.3


def model(name: str) -> ServedModel:
    session = ort_lite.InferenceSession(onnx.parser.parse_model(TEXTS[name]), providers=["CPUExecutionProvider"])

    def slow(feeds: Any, seconds: float) -> Any:
        time.sleep(NAP)
        return session.run(None, feeds)

    def picky(feeds: Any, seconds: float) -> Any:
        if feeds["x"].min() < 0:
            raise ArithmeticError("below zero")
        return session.run(None, feeds)

    return ServedModel(name, session, run={"slow": slow, "picky": picky}.get(name))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    models = [model(name) for name in given["models"]]
    limits, batching = Limits(**given.get("limits", {})), Batching(**given.get("batching", {}))
    asyncio.run(run(Server(models, limits, batching), "127.0.0.1", 0, 0, say))
