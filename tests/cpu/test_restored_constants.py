"""Large matrices that were packed are not kept as they came: they are made again, bit for bit, where somebody asks."""

from typing import Any

import numpy as np
import onnx.parser

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.graph import Value
from ort_lite.graph.released import DroppedConstant
from ort_lite.options.config_keys import KEEP_CONSTANTS
from ort_lite.provider.export import partition_model
from tests.cpu.check import ramp

ROWS, COLUMNS = 512, 520  # more than a mebibyte, and no whole number of panels
FEED = {"x": ramp((3, ROWS)), "v": ramp((3, COLUMNS))}


def weights() -> dict[str, Array]:
    """One has a -0.0 and a NaN with bits of its own."""
    shapes = {"a": (ROWS, COLUMNS), "b": (COLUMNS, ROWS), "c": (COLUMNS, COLUMNS)}
    made = {name: np.ascontiguousarray(ramp((shape[1], shape[0])).T) for name, shape in shapes.items()}
    made["a"][3, 5] = -0.0
    made["a"].view(np.uint32)[7, 9] = 0x7FC01234
    return made


def session(keep: bool = False) -> ort_lite.InferenceSession:
    """c is read by a Gather as well."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> main (float[N,512] x, float[N,520] v) '
        "=> (float[N,520] y, float[N,520] z, float[N,520] f, float[2,520] d) <int64[2] two = {1, 2}, float[512,520] a, "
        "float[520,512] b, float[520,520] c> { y = MatMul(x, a)  z = Gemm<transB = 1>(x, b)  f = MatMul(v, c)  d = Gather(c, two) }"
    )
    del model.graph.initializer[1:]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights().items())
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry(KEEP_CONSTANTS, str(int(keep)))
    return ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def constants(made: ort_lite.InferenceSession) -> dict[str, Value]:
    [partition] = made.explain().assignment.partitions
    return {value.name: value for value in partition.constants}


def test_what_nothing_reads_but_its_panels_is_given_up_and_has_its_bits() -> None:
    made = session()
    found = constants(made)
    assert {name: isinstance(found[name].constant, DroppedConstant) for name in "abc"} == {"a": True, "b": True, "c": False}
    for name, array in weights().items():
        assert np.asarray(found[name].constant).tobytes() == array.tobytes(), name
    kept = session(keep=True)
    assert not any(isinstance(value.constant, DroppedConstant) for value in constants(kept).values())
    assert kept.memory()["constants"] - made.memory()["constants"] == 2 * ROWS * COLUMNS * 4


def test_programs_for_other_shapes_are_lowered_from_them() -> None:
    made = session()
    [step] = made._stage_results.compiled.executable.steps
    program: Any = step.function
    feeds = [FEED[value.name] for value in program.source.inputs]
    for one, other in zip(program(feeds), program._specialize(tuple(x.shape for x in feeds))(feeds), strict=True):
        np.testing.assert_array_equal(one, other)
    more = {"x": FEED["x"], "v": np.concatenate([FEED["v"]] * 2)}  # two sizes of one name: a program of their own
    np.testing.assert_array_equal(made.run(["y"], more)[0], made.run(["y"], FEED)[0])


def test_who_saves_or_verifies_gets_them() -> None:
    made = session()
    [partition] = made.explain().assignment.partitions
    model = onnx.load_from_string(partition_model(partition).data)
    saved = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    for name, array in weights().items():
        assert saved[name].tobytes() == array.tobytes()
    fresh = session()
    for one, other in zip(fresh.run(None, FEED, verify="partition"), made.run(None, FEED), strict=True):
        np.testing.assert_array_equal(one, other)
