"""Scalar calls of the C library's functions, for operations that are rare."""

from collections.abc import Callable
from typing import Any

from ort_lite.native.marks import arithmetic


def _unary(name: str) -> Callable[[Any], Any]:
    @arithmetic("F(F)")
    def function(x: Any) -> Any:
        """Call the C function of that name."""
        return x.libm(name)

    return function


def _binary(name: str) -> Callable[[Any, Any], Any]:
    @arithmetic("F(F,F)")
    def function(x: Any, y: Any) -> Any:
        """Call the C function of that name."""
        return x.libm(name, y)

    return function


tan = _unary("tan")
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
sinh, cosh = _unary("sinh"), _unary("cosh")
asinh, acosh, atanh = _unary("asinh"), _unary("acosh"), _unary("atanh")
expm1, cbrt = _unary("expm1"), _unary("cbrt")
exp2, log2, log10 = _unary("exp2"), _unary("log2"), _unary("log10")
power, atan2 = _binary("pow"), _binary("atan2")
fmod_trunc = _binary("fmod")
