"""Models of a single node, run by a provider and by the CPU provider. The tests of plugins share this."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy, to_onnx

CPU = "CPUExecutionProvider"
MICROSOFT = "com.microsoft"


def ramp(shape: Sequence[int], dtype: Any = np.float32) -> Array:
    """Numbers between -1 and 1 of a fixed seed, which depends on the shape."""
    return np.random.default_rng(shape).uniform(-1, 1, shape).astype(dtype)


class Single:
    """A model of one node. Inputs are arrays, or None; those at `constants` are initialisers; `dims` names open dimensions."""

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[Array | None],
        attributes: Mapping[str, Any],
        *,
        opset: int = 24,
        outputs: Sequence[bool] = (True,),
        constants: Sequence[int] = (),
        dims: Mapping[int, Sequence[str | int]] = {},
    ) -> None:
        domain, _, name = op_type.rpartition(".")
        names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
        given = {k: x for k, x in enumerate(inputs) if x is not None}
        infos = [
            helper.make_tensor_value_info(names[k], to_onnx(from_numpy(x.dtype)), list(dims.get(k, x.shape)))
            for k, x in given.items()
            if k not in constants
        ]
        results = [f"y{k}" if wanted else "" for k, wanted in enumerate(outputs)]
        graph = helper.make_graph(
            [helper.make_node(name, names, results, domain=domain, **attributes)],
            "single",
            infos,
            [helper.make_empty_tensor_value_info(result) for result in results if result],
            [numpy_helper.from_array(given[k], names[k]) for k in constants],
        )
        imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
        self.feeds = {names[k]: x for k, x in given.items() if k not in constants}

    def session(self, provider: str, threads: int = 0) -> ort_lite.InferenceSession:
        """A session without transforms."""
        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
        return ort_lite.InferenceSession(self.model, options, providers=[provider])

    def run(self, provider: str, threads: int = 0) -> list[Array]:
        return list(self.session(provider, threads).run(None, self.feeds))

    def reason(self, provider: str) -> str:
        """The reason why the provider declines the node."""
        (verdicts,) = ort_lite.plan(self.model, [provider, CPU]).verdicts().values()
        return str(verdicts[provider])


def compare(provider: str, op_type: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any], **how: Any) -> None:
    """The provider computes the node, and its results are the CPU provider's up to 2e-5, or two units of 16 bits."""
    single = Single(op_type, inputs, attributes, **how)
    for got, want in zip(single.run(provider), single.run(CPU), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        close(got, want)


def close(got: Array, want: Array, tolerance: float = 0) -> None:
    least = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(want.dtype.name, 2e-5)
    wide = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(*wide, rtol=max(least, tolerance), atol=max(least, tolerance))
