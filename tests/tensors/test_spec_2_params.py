"""docs/specification.md, rows 2.11 and 2.12: parameter files, byte for byte, and sessions that load them."""

import io
import struct
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ort_lite
from ort_lite import CVMLoadParamsDict, CVMSaveParamsDict, NDArray, ParseOptions, load_params, save_params
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, InvalidParams, NoSuchFile
from ort_lite.tensors.container import Container
from tests.load.models import proto
from tests.ownership.models import W, inline

DATA = Path(__file__).parents[1] / "data" / "params"
GOLDEN: dict[str, dict[str, Array]] = {
    "two_tensors": {"w": np.array([[1, 2, 3], [4, 5, 6]], np.int32), "bias": np.array([0.5, -1], np.float32)},
    "scalar_empty_bool": {
        "s": np.array(7, np.int64),
        "e": np.zeros((0, 4), np.float32),
        "b": np.array([True, False]),
    },
}
ONE = save_params({"w": np.arange(3, dtype=np.int16)})
RECORD = ONE.index(struct.pack("<Q", 0xDD5E40F096B4A13F))


def golden(name: str) -> bytes:
    return (DATA / f"{name}.params").read_bytes()


def equal(found: dict[str, NDArray], expected: dict[str, Array]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        made = found[name].numpy()
        assert (made.dtype, made.shape, made.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize("name", GOLDEN)
class TestGolden:
    def test_spec_2_12_the_bytes_are_those_of_tvm(self, name: str) -> None:
        assert save_params(GOLDEN[name]) == golden(name)
        assert CVMSaveParamsDict({key: NDArray.from_numpy(array) for key, array in GOLDEN[name].items()}) == golden(name)

    def test_spec_2_12_tvms_bytes_are_read(self, name: str, tmp_path: Path) -> None:
        equal(load_params(golden(name)), GOLDEN[name])
        equal(CVMLoadParamsDict(golden(name)), GOLDEN[name])
        equal(load_params(DATA / f"{name}.params"), GOLDEN[name])
        equal(load_params(io.BytesIO(golden(name))), GOLDEN[name])
        equal(load_params(memoryview(golden(name)), no_copy=True), GOLDEN[name])
        save_params(GOLDEN[name], tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == golden(name)

    def test_spec_2_12_cut_short_anywhere_it_is_one_error(self, name: str) -> None:
        data = golden(name)
        for size in range(len(data)):
            with pytest.raises(InvalidParams, match=f"at byte [0-9]+ of {size}, "):
                load_params(data[:size])

    def test_spec_2_12_trailing_bytes_are_not_looked_at(self, name: str) -> None:
        equal(load_params(golden(name) + b"rest"), GOLDEN[name])

    def test_spec_2_12_a_flipped_byte_gives_a_dictionary_or_that_error(self, name: str) -> None:
        data = golden(name)
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 0x80
            try:
                found = load_params(damaged)
            except InvalidParams:
                continue
            assert len(found) == len(GOLDEN[name])


def patched(at: int, format_: str, value: int) -> bytes:
    data = bytearray(ONE)
    struct.pack_into(f"<{format_}", data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (patched(0, "Q", 1), r"0x0000000000000001 where a parameter dictionary begins with 0xf7e58d4f05049cb7"),
        (patched(RECORD, "Q", 2), r"where tensor 'w' begins with 0xdd5e40f096b4a13f"),
        (patched(16, "Q", 2**60), "1152921504606846976 names do not fit"),
        (patched(16, "Q", 0), "1 tensors for 0 names"),
        (patched(24, "Q", 2**63), "a name needs 9223372036854775808 bytes"),
        (patched(32, "B", 0xFF), "is not UTF-8"),
        (patched(RECORD - 8, "Q", 0), "0 tensors for 1 names"),
        (patched(RECORD + 16, "i", 2), "on device type 2; files hold those of the CPU, 1"),
        (patched(RECORD + 24, "i", -1), "has -1 dimensions; expected 0 to 64"),
        (patched(RECORD + 24, "I", 2**31), "has -2147483648 dimensions"),
        (patched(RECORD + 28, "B", 3), "code 3 and 16 bits is not known"),
        (patched(RECORD + 29, "B", 12), "12 bits; expected whole bytes"),
        (patched(RECORD + 30, "H", 0), "0 lanes"),
        (patched(RECORD + 30, "H", 4), "has 4 lanes; expected 1"),
        (patched(RECORD + 32, "q", -3), r"shape \[-3\] has a negative dimension"),
        (patched(RECORD + 32, "q", 2**62), "larger than any memory"),
        (patched(RECORD + 32, "q", 2**40), r"says 6 bytes; int16\[1099511627776\] has 2199023255552"),
        (patched(RECORD + 40, "q", 7), r"says 7 bytes; int16\[3\] has 6"),
    ],
)
def test_spec_2_12_what_contradicts_itself_is_named(data: bytes, message: str) -> None:
    with pytest.raises(InvalidParams, match=message):
        load_params(data)


def test_spec_2_12_reserved_fields_may_hold_anything() -> None:
    for at in (8, RECORD + 8):
        assert load_params(patched(at, "Q", 2**64 - 1))["w"].numpy().tolist() == [0, 1, 2]


def test_spec_2_12_a_name_twice_is_an_error() -> None:
    data = save_params({"a": np.zeros(1), "b": np.zeros(1)}).replace(b"b", b"a", 1)
    with pytest.raises(InvalidParams, match="the name 'a' comes twice"):
        load_params(data)


def test_spec_2_12_bools_of_one_bit_as_older_files_have_them_are_read() -> None:
    data = bytearray(save_params({"b": np.array([True, False, True])}))
    at = data.index(struct.pack("<BBH", 6, 8, 1))
    data[at : at + 2] = bytes([1, 1])
    assert load_params(data)["b"].numpy().tolist() == [True, False, True]
    data[-1] = 2
    with pytest.raises(InvalidParams, match="a bool is neither 0 nor 1"):
        load_params(data)


def test_spec_2_12_without_a_copy_aligned_tensors_lie_in_the_callers_bytes() -> None:
    data = save_params({"a" * (8 - RECORD % 8 + 1): np.arange(3, dtype=np.int8), "b": np.arange(64, dtype=np.float64)})
    found = load_params(data, no_copy=True)
    start = np.frombuffer(data, np.uint8).ctypes.data
    first, second = found.values()
    assert start <= first.data_ptr < start + len(data)
    assert not first.numpy().flags.writeable
    assert second.data_ptr % 8 == 0
    assert second.numpy().tolist() == list(range(64))
    owned = load_params(data)["b"]
    assert not np.shares_memory(owned.numpy(), np.frombuffer(data, np.uint8))
    assert owned.numpy().flags.writeable


def test_spec_2_12_a_single_tensor_is_saved_as_a_record(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    data = NDArray.from_numpy(array).save(tmp_path / "tensor")
    assert data in save_params({"w": array})
    for source in (data, tmp_path / "tensor", io.BytesIO(data)):
        np.testing.assert_array_equal(NDArray.load(source).numpy(), array)
    for size in range(len(data)):
        with pytest.raises(InvalidParams):
            NDArray.load(data[:size])


def test_spec_2_12_what_cannot_be_saved_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="string has no DLDataType"):
        save_params({"w": np.array(["a"], object)})
    with pytest.raises(InvalidArgument, match="the name 3 is a int, expected str"):
        save_params(cast(Any, {3: W}))
    handle = ort_lite.CVMArrayAlloc((2,), 2, 32, 4)
    quads = ort_lite.CVMArrayFromHandle(handle)
    ort_lite.CVMArrayFree(handle)
    with pytest.raises(InvalidArgument, match="4 lanes cannot be saved"):
        save_params({"w": quads})
    with pytest.raises(NoSuchFile, match="absent cannot be read"):
        load_params("absent")
    with pytest.raises(InvalidArgument, match="parameters came as int"):
        load_params(cast(Any, 3))


@pytest.mark.slow
@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=4), st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=4))
def test_spec_2_12_any_dictionary_comes_back(shapes: dict[str, tuple[int, ...]]) -> None:
    params = {name: np.random.default_rng(0).random(shape).astype(np.float32) for name, shape in shapes.items()}
    equal(load_params(save_params(params)), params)


# 2.11: sessions


def run(session: ort_lite.InferenceSession) -> Array:
    result: Array = session.run(None, {"x": np.zeros((1, 1024), np.float32)})[0]
    return result


def session(source: Any, **options: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(source, providers=["CPUExecutionProvider"], **options)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_spec_2_11_a_session_takes_other_parameters(as_bytes: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(inline())
    for source in (str(path), inline(), ort_lite.load(path)):
        made = session(source)
        np.testing.assert_array_equal(run(made), W[None])
        params = {"w": -W}
        made.load_params(save_params(params) if as_bytes else params)
        np.testing.assert_array_equal(run(made), -W[None])
        params["w"][...] = 0
        np.testing.assert_array_equal(run(made), -W[None])


def test_spec_2_11_a_sessions_weights_lie_in_the_containers_that_were_loaded() -> None:
    data = save_params({"w": -W})
    before = set(Container.live)
    made = session(proto("main (float[N, 1024] x, float[1024] w) => (float[N, 1024] y) { y = Add(x, w) }"), params=data)
    (container,) = set(Container.live) - before
    weights = made._stage_results.model.graph.initializers["w"].constant
    assert weights is not None
    assert weights.ctypes.data == Container.at(container).data_address
    np.testing.assert_array_equal(run(made), -W[None])


def test_spec_2_11_what_does_not_fit_is_refused_and_nothing_changes() -> None:
    made = session(inline())
    refused: list[tuple[dict[str, Array], str]] = [
        ({"absent": W}, r"the model has no parameter 'absent'; it has 'x', 'w', 's'"),
        ({"w": W[:3]}, r"'w' is float32\[3\]; the model's is float32\[1024\]"),
        ({"w": W.astype(np.float64)}, "'w' is float64"),
        ({"w": -W, "absent": W}, "no parameter 'absent'"),
    ]
    for params, message in refused:
        with pytest.raises(InvalidArgument, match=message):
            made.load_params(params)
    with pytest.raises(InvalidParams):
        made.load_params(b"nothing")
    np.testing.assert_array_equal(run(made), W[None])


def test_spec_2_11_every_parameter_without_a_value_has_to_be_loaded() -> None:
    structure = ort_lite.load(inline(), ParseOptions(skip_raw_data=True, raw_data_threshold=0))
    with pytest.raises(InvalidArgument, match="parameter 'w' and 1 more has not been loaded"):
        session(structure)
    with pytest.raises(InvalidArgument, match="parameter 's' has not been loaded"):
        session(structure, params={"w": W})
    made = session(structure, params={"w": W, "s": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(run(made), W[None])
    with pytest.raises(InvalidArgument, match="parameter 's' has not been loaded"):
        made.load_params({"w": -W})
    np.testing.assert_array_equal(run(made), W[None])


def test_spec_2_11_an_input_that_is_given_a_value_need_not_be_fed() -> None:
    made = session(proto("main (float[N] x, float[2] w) => (float[N] y) { y = Add(x, w) }"))
    assert [arg.name for arg in made.get_inputs()] == ["x", "w"]
    made.load_params({"w": np.array([2, 3], np.float32)})
    assert [arg.name for arg in made.get_inputs()] == ["x"]
    assert made.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [3, 4]
    assert made.run(None, {"x": np.ones(2, np.float32), "w": np.ones(2, np.float32)})[0].tolist() == [2, 2]
    with pytest.raises(InvalidArgument, match="input 'w' has 3 in dimension 0"):
        made.load_params({"w": np.zeros(3, np.float32)})


def test_spec_2_11_a_source_that_was_not_kept_is_named() -> None:
    with pytest.raises(InvalidArgument, match="made from a buffer or file object that it has not kept"):
        session(bytearray(inline())).load_params({"w": W})
    closed = session(inline())
    closed.close()
    with pytest.raises(InvalidArgument, match="the session is closed"):
        closed.load_params({"w": W})
