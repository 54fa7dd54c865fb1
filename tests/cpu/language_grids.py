"""The parameter grids of onnxruntime's own tests of the operators of language models, on random feeds, against onnxruntime.

    python -m tests.cpu.language_grids [OPERATOR...] [--strength N | --all]

A case has a value of each parameter. By default, all combinations of values of three parameters appear in some case, if they go
together; `test_language_grids.py` takes those of two. Options that onnxruntime's tests take in turn are parameters here.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from tests.cpu.attention_grids import CODES, GROUPED, MULTI_HEAD
from tests.cpu.check import run_op
from tests.cpu.grid_cases import Case, Grid, covering, every
from tests.cpu.ort import ort_op
from tests.cpu.state_grids import CONVOLUTION, DELTA_NET
from tests.cpu.weight_grids import EXPERTS, GATHERED, QUANTIZED_EXPERTS, WEIGHTS

MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
GRIDS: Mapping[str, Sequence[Grid]] = {
    "GatedDeltaNet": [DELTA_NET],
    "GatherBlockQuantized": [GATHERED],
    "GroupQueryAttention": [GROUPED, CODES],
    "MatMulNBits": [WEIGHTS],
    "MoE": [EXPERTS],
    "MultiHeadAttention": [MULTI_HEAD],
    "QMoE": [QUANTIZED_EXPERTS],
    "VarlenCausalConvWithState": [CONVOLUTION],
}


def cases(op_type: str, strength: int) -> Iterator[Case]:
    """Yield cases with all combinations of values of `strength` parameters, or all cases there are if it is 0."""
    for number, grid in enumerate(GRIDS[op_type]):
        for at, parameters in enumerate(covering(grid, strength) if strength else every(grid)):
            yield grid.make(np.random.default_rng((number, at)), *parameters)


def differences(op_type: str, case: Case) -> str:
    """Return how our results differ from onnxruntime's, or ""."""
    outputs = case.outputs
    want = ort_op(op_type, case.inputs, case.attributes, outputs=outputs, constants=case.constants, **MICROSOFT)
    got = run_op(op_type, case.inputs, case.attributes, outputs=len(outputs), constants=case.constants, **MICROSOFT)
    for k, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if ours.shape != theirs.shape:
            return f"output {k} has shape {ours.shape}, expected {theirs.shape}"
        if ours.tobytes() == theirs.tobytes():
            continue
        cache = k in (1, 2)
        found, wanted = (_valid(x, case.ends) if cache and case.ends else x.astype(np.float64) for x in (ours, theirs))
        limit = (1e-5 if cache else case.atol) + case.rtol * np.abs(wanted)
        if not (np.abs(found - wanted) <= limit).all():
            return f"output {k} is off by {np.max(np.abs(found - wanted))}, which may be {np.min(limit)}"
    return ""


def _valid(cache: Array, ends: Sequence[int]) -> Array:
    """Return a cache (B, heads, rows, size) with zeros in rows that do not count."""
    counts = np.arange(cache.shape[2]) < np.array(ends)[:, None]
    return np.where(counts[:, None, :, None], cache.astype(np.float64), 0)


def describe(case: Case) -> str:
    """Return the types and shapes of a case's inputs, and its attributes."""
    shapes = ["none" if x is None else f"{x.dtype}{list(x.shape)}" for x in case.inputs]
    return f"{', '.join(shapes)} with {case.attributes}, constants {list(case.constants)}"


def main() -> None:
    """Run grids, and print each case that differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.language_grids")
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="the operators (default: all)")
    parser.add_argument("--strength", type=int, default=3, help="cover the combinations of so many parameters (default: 3)")
    parser.add_argument("--all", action="store_true", help="run all cases, which takes days")
    options = parser.parse_args()
    for op_type in options.operators or GRIDS:
        count = failed = 0
        for case in cases(op_type, 0 if options.all else options.strength):
            count += 1
            if found := differences(op_type, case):
                failed += 1
                print(f"{op_type} of {describe(case)}: {found}", flush=True)
        print(f"{op_type}: {count - failed} of {count} cases match", flush=True)


if __name__ == "__main__":
    main()
