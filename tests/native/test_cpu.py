"""What targets say about themselves."""

import pytest

from ort_lite.native.cpu import Target, host
from tests.native.calls import AARCH64, HASWELL, SKYLAKE_AVX512, SSE2


@pytest.mark.parametrize(
    ("target", "nbytes", "registers", "fma", "f16c"),
    [
        (SSE2, 16, 16, False, False),
        (HASWELL, 32, 16, True, True),
        (SKYLAKE_AVX512, 64, 32, True, True),
        (AARCH64, 16, 32, True, True),
    ],
    ids=lambda value: value.name if isinstance(value, Target) else "",
)
def test_registers_follow_the_features(target: Target, nbytes: int, registers: int, fma: bool, f16c: bool) -> None:
    assert (target.vector_bytes, target.vector_registers, target.has_fma, target.has_f16c) == (nbytes, registers, fma, f16c)


def test_features_are_asked_for_by_name() -> None:
    target = Target("triple", "cpu", "+avx2,-avx512f,+fma")
    asked = ["avx2", "avx2,fma", "avx512f", "avx2,avx512f", "avx512f|avx2", "avx512f|neon", ""]
    assert [target.has(names) for names in asked] == [True, True, False, False, True, False, True]


def test_dot_products_need_the_full_width() -> None:
    assert Target("", "", "+avxvnni").has_vnni
    assert Target("", "", "+avx512f,+avx512vnni").has_vnni
    assert not Target("", "", "+avx512f,+avxvnni").has_vnni
    assert Target("", "", "+avxvnni").has_byte_products and Target("", "", "+neon,+dotprod").has_byte_products
    assert not Target("", "", "+avx2").has_byte_products and not Target("", "", "+neon").has_byte_products
    assert Target("", "", "+avx512bf16").has_bf16


def test_the_host_is_described() -> None:
    target = host()
    assert target.name
    assert target.vector_bytes in (16, 32, 64)
    assert target is host()
