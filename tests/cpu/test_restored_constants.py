"""Large matrices that were packed are not kept as they came: they are made again, bit for bit, where somebody asks."""

from typing import Any

import numpy as np
import onnx.parser
import pytest

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


def restored(body: str, inputs: str, **weights: Array) -> tuple[ort_lite.InferenceSession, dict[str, Array]]:
    """Return a session, and the weights that it gave up, made again."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> main ({inputs}) => (float[a, b] y) {{ {body} }}'
    )
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    made = ort_lite.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    held: dict[str, Any] = {name: value.constant for name, value in constants(made).items()}
    return made, {name: np.asarray(one) for name, one in held.items() if isinstance(one, DroppedConstant)}


@pytest.mark.parametrize("zero", [None, 0, 100, "columns"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_matrices_of_bytes_have_their_bits(dtype: type[np.integer[Any]], zero: int | str | None) -> None:
    rng, limits = np.random.default_rng(3), np.iinfo(dtype)
    b = rng.integers(limits.min, limits.max + 1, (263, 520)).astype(dtype)
    given = {"b": b}
    if zero is not None:
        points = np.full(520, zero) if isinstance(zero, int) else rng.integers(limits.min, limits.max + 1, 520)
        given["p"] = points.astype(dtype)
    body = f"z = MatMulInteger(x, b{'' if zero is None else ', , p'})  y = Cast<to = 1>(z)"
    made, found = restored(body, "uint8[N, 263] x", **given)
    assert found["b"].dtype == dtype
    np.testing.assert_array_equal(found["b"], b)
    x = rng.integers(0, 256, (3, 263)).astype(np.uint8)
    expected = x.astype(np.int64) @ (b.astype(np.int64) - given.get("p", np.zeros(1, np.int64)))
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], expected.astype(np.float32))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_matrices_of_few_bits_have_their_bits(bits: int) -> None:
    rng, n, k = np.random.default_rng(4), 523, 1024
    b = rng.integers(0, 256, (n, k // 32, 4 * bits)).astype(np.uint8)
    body = f"y = com.microsoft.MatMulNBits<K = {k}, N = {n}, bits = {bits}, block_size = 32>(x, b, s)"
    scales = rng.random(n * k // 32).astype(np.float32)
    _, found = restored(body, f"float[N, {k}] x", b=b, s=scales)
    np.testing.assert_array_equal(found["b"], b)
