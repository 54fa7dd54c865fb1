"""A rule of one's own, which every session then applies: Log(Softmax(x)) becomes LogSoftmax(x).

    python examples/transform_plugin.py

The two are equal on paper. In float32 they are not: where Softmax rounds to 0 its Log is -inf, and LogSoftmax is right. A rule is a
pattern and a function that rewrites what it matches, or says by `Skip` why not; a plugin is whatever has the hook, here a namespace.
A package names its module among the entry points `ort_lite.transforms` instead of registering it; sessions use its rules once their
config entry `ort_lite.transforms` names it.
"""

from types import SimpleNamespace

import numpy as np
import onnx.parser

import ort_lite
from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule

MODEL = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
classifier (float[N, 3] x) => (float[N, 3] y) { scores = Neg(x)  likely = Softmax<axis = -1>(scores)  y = Log(likely) }""")


@rule(op("Log", op("Softmax", "x", name="softmax"), name="log"), level="extended")
def log_of_softmax(rewriter: Rewriter, x: Value, softmax: Node, log: Node) -> Done | Skip:
    """Log(Softmax(x)) becomes LogSoftmax(x), of the same axis, where nobody else reads the Softmax."""
    if softmax.version < 13:
        return Skip(f"Softmax-{softmax.version} flattens its input first")
    if not rewriter.is_private(softmax):
        return Skip(f"{softmax.output.name} has other readers: it would be computed twice")
    return rewriter.replace(log, rewriter.op("LogSoftmax", x, axis=softmax.attr("axis", -1)))


PLUGIN = SimpleNamespace(ort_lite_transforms=lambda: [log_of_softmax])


def operators_and_result(x: list[float]) -> tuple[list[str], list[float]]:
    """What a new session of the model runs, and what it answers for one row."""
    session = ort_lite.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.array([x], np.float32)})
    return [place.node.op_type for place in session.explain().assignment.placements.values()], y[0].tolist()


def main() -> None:
    x = [0.0, 60.0, 120.0]
    print("without the rule: {} -> {}".format(*operators_and_result(x)))
    ort_lite.register_plugin(PLUGIN)
    try:
        print("with the rule:    {} -> {}".format(*operators_and_result(x)))
    finally:
        ort_lite.unregister_plugin(PLUGIN)


if __name__ == "__main__":
    main()
