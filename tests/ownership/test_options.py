"""docs/specification.md, rows 1.1 to 1.5: the options and what they select."""

from inspect import signature
from typing import Any, cast

import numpy as np
import pytest

import ort_lite
from ort_lite import ParseOptions, SerializeOptions, TensorBufferOptions
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Model
from ort_lite.load.spans import ByteSpan, span_of
from tests.ownership.models import SMALL, W, constant, inline, model, raw


def span(loaded: Model, name: str = "w") -> ByteSpan:
    found = span_of(constant(loaded, name))
    assert found is not None
    return found


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def test_spec_1_1_buffer_options_select_everything_and_align_nothing() -> None:
    options = TensorBufferOptions()
    assert (options.raw_data_threshold, options.alignment) == (0, 0)
    options.alignment = 64
    assert options == TensorBufferOptions(alignment=64) != TensorBufferOptions(alignment=64, raw_data_threshold=1)
    assert repr(options) == "TensorBufferOptions(raw_data_threshold=0, alignment=64)"
    with pytest.raises(TypeError, match="'threshold'"):
        cast(Any, TensorBufferOptions)(threshold=3)
    with pytest.raises(AttributeError, match="no option 'aligment'"):
        options.aligment = 64


def test_spec_1_2_parse_options_begin_at_1024_bytes() -> None:
    assert issubclass(ParseOptions, TensorBufferOptions)
    assert (ParseOptions().raw_data_threshold, ParseOptions().alignment) == (1024, 0)


def test_spec_1_3_serialize_options_begin_at_64_bytes() -> None:
    assert issubclass(SerializeOptions, TensorBufferOptions)
    assert SerializeOptions().raw_data_threshold == ort_lite.kSmallTensorDataThresholdBytes == 64


@pytest.mark.parametrize(
    ("options", "moved"),
    [(TensorBufferOptions(), [63, 64, 1023, 1024]), (SerializeOptions(), [64, 1023, 1024]), (ParseOptions(), [1024])],
    ids=lambda given: type(given).__name__,
)
def test_spec_1_4_the_threshold_is_that_of_the_options_that_are_passed(options: TensorBufferOptions, moved: list[int]) -> None:
    sizes = (63, 64, 1023, 1024)
    loaded = ort_lite.load(model(*(raw(np.zeros(n, np.uint8), f"n{n}") for n in sizes), raw(SMALL[:0], "w")))
    ort_lite.consolidate_tensors_to_buffer(loaded, options)
    assert [n for n in sizes if span(loaded, f"n{n}").mode == "borrowed"] == moved


@pytest.mark.parametrize("kind", [TensorBufferOptions, ParseOptions, SerializeOptions])
def test_each_option_is_a_keyword_with_its_default(kind: type[TensorBufferOptions]) -> None:
    parameters = signature(kind).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == vars(kind())
    assert repr(kind()) == f"{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in vars(kind()).items())})"


@pytest.mark.parametrize("kind", [TensorBufferOptions, ParseOptions, SerializeOptions])
def test_spec_1_5_a_negative_threshold_is_zero_and_a_negative_alignment_is_refused(kind: Any) -> None:
    assert kind(raw_data_threshold=-5).raw_data_threshold == 0
    for wrong in (-1, 1.5, "64", True, None):
        with pytest.raises(InvalidArgument, match=r"alignment: got .*, expected a whole number, 0 or more"):
            kind(alignment=wrong)


@pytest.mark.parametrize("alignment", [1, 48, 100, 4096, 65537])
def test_spec_1_5_any_positive_alignment_is_kept_by_start_and_offsets(alignment: int) -> None:
    loaded = ort_lite.load(model(raw(W, "w"), raw(np.zeros(7, np.uint8), "odd"), raw(-W, "v")))
    ort_lite.consolidate_tensors_to_buffer(loaded, TensorBufferOptions(alignment=alignment))
    assert [address(constant(loaded, name)) % alignment for name in ("w", "odd", "v")] == [0, 0, 0]


def test_spec_1_5_an_alignment_beyond_memory_is_an_error_that_says_so() -> None:
    loaded = ort_lite.load(inline())
    with pytest.raises(ort_lite.errors.OutOfMemory, match="bytes of tensors, aligned to 4611686018427387904"):
        ort_lite.consolidate_tensors_to_buffer(loaded, TensorBufferOptions(alignment=2**62))
    assert span(loaded).mode == "owned"


def test_spec_1_5_other_options_are_checked_as_well() -> None:
    for name, value in [
        ("no_copy", 1),
        ("max_tensor_size_bytes", -1),
        ("max_recursion_depth", 0),
        ("external_data_roots", "folder"),
        ("raw_data_callback", 3),
    ]:
        with pytest.raises(InvalidArgument, match=f"ParseOptions.{name}: got"):
            cast(Any, ParseOptions)(**{name: value})
    with pytest.raises(InvalidArgument, match=r"SerializeOptions.external_data: got 3"):
        cast(Any, SerializeOptions)(external_data=3)
