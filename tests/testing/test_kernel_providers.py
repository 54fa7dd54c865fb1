"""The conformance kit, pointed at providers out of kernels: aliases, in-place kernels, operands on the host, a device."""

from typing import Any, ClassVar

import numpy as np
import pytest

from ort_lite.graph import Node
from ort_lite.provider import DataTransfer, Device
from ort_lite.provider.kernels import Kernel, KernelProvider, KernelRegistry
from ort_lite.testing import CHECKS, GeneratedModels, Kit
from tests.provider.numpy_provider import Box, BoxTransfer

pytestmark = pytest.mark.slow
FLOAT = {"float32"}
on_host, on_box = KernelRegistry(), KernelRegistry()


def negative(x: Any, out: Any = None) -> Any:
    return np.negative(x, out=out)


def add(a: Any, b: Any, out: Any = None) -> Any:
    return np.add(a, b, out=out)


def reshaped(x: Any, shape: Any, zero: bool) -> Any:
    return x.reshape([x.shape[k] if size == 0 and not zero else int(size) for k, size in enumerate(shape)])


on_host.add("Abs", np.abs, since=6, types=FLOAT)
on_host.add("Add", add, since=7, types=FLOAT, inplace={0: 0})
on_host.add("Identity", lambda x: x, types=FLOAT, aliases={0: 0})
on_host.add("Neg", negative, since=6, types=FLOAT, inplace={0: 0})


@on_host.kernel("Reshape", since=5, types=FLOAT, inputs=(None, {"int64"}), aliases={0: 0})
def reshape(node: Node) -> Kernel:
    zero = bool(node.attr("allowzero", 0))
    return lambda x, shape: reshaped(x, shape, zero)


@on_host.kernel("Transpose", types=FLOAT, aliases={0: 0})
def transpose(node: Node) -> Kernel:
    perm = node.attr("perm")
    return lambda x: np.transpose(x, perm)


BOX = Device("box")
on_box.add("Neg", lambda x: Box(BOX, np.negative(x.open(BOX))), since=6, types=FLOAT)


@on_box.kernel("Reshape", since=5, types=FLOAT, inputs=(None, {"int64"}), host_inputs=(1,))
def boxed_reshape(node: Node) -> Kernel:
    zero = bool(node.attr("allowzero", 0))
    return lambda x, shape: Box(BOX, reshaped(x.open(BOX), shape, zero))


@on_box.kernel("Shape", since=15, inputs=(FLOAT,), host_outputs=(0,))
def boxed_shape(node: Node) -> Kernel:
    part = slice(node.attr("start", 0), node.attr("end"))
    return lambda x: np.array(x.open(BOX).shape[part], np.int64)


class OnHost(KernelProvider):
    name: ClassVar[str] = "HostExecutionProvider"
    kernels = on_host


class OnBox(KernelProvider):
    name: ClassVar[str] = "BoxExecutionProvider"
    kernels = on_box
    device = BOX

    def data_transfer(self) -> DataTransfer:
        return BoxTransfer(self.device)


OPERATORS = {"host": ["Abs", "Add", "Identity", "Neg", "Reshape", "Transpose"], "box": ["Neg", "Reshape", "Shape"]}
FEW = GeneratedModels(most=120)
KITS = {"host": Kit(OnHost, OPERATORS["host"], models=FEW), "box": Kit(OnBox, OPERATORS["box"], models=FEW)}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kit", KITS.values(), ids=KITS)
def test_the_kit_finds_nothing(kit: Kit, check: str) -> None:
    assert CHECKS[check](kit) == []


@pytest.mark.parametrize("kit", KITS)
def test_the_kit_looked_at_their_operators(kit: str) -> None:
    assert {operator for taken in KITS[kit].operators_by_case.values() for operator in taken} == set(OPERATORS[kit])
