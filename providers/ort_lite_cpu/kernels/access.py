"""Reads and writes of generated loops that LLVM may take for independent of each other, although they may be in place.

An elementwise loop whose output lies in the memory of an input reads and writes each element at one index only, so no
iteration depends on another. LLVM cannot see that: its run-time test finds the same addresses and takes the scalar loop,
five times slower. The alias scopes here say it.
"""

from typing import Any

from ort_lite.native.lang import emitter


@emitter("T(*T,i64)")
def fetch(builder: Any, x: Any, index: Any) -> Any:
    """Return x[index], an operand's element."""
    loaded = builder.load(builder.gep(x, [index], inbounds=True))
    operands, result = _scopes(builder)
    loaded.set_metadata("alias.scope", operands)
    loaded.set_metadata("noalias", result)
    return loaded


@emitter("void(*T,i64,T)")
def put(builder: Any, y: Any, index: Any, value: Any) -> None:
    """y[index] = value, the result's element."""
    stored = builder.store(value, builder.gep(y, [index], inbounds=True))
    operands, result = _scopes(builder)
    stored.set_metadata("alias.scope", result)
    stored.set_metadata("noalias", operands)


def _scopes(builder: Any) -> tuple[Any, Any]:
    """Return lists of one scope each: that of all operands, that of the result. Equal metadata is one node in a module."""
    from llvmlite import ir

    module = builder.module
    domain = module.add_metadata([ir.MetaDataString(module, "ort_lite elementwise")])
    names = ("ort_lite operands", "ort_lite result")
    operands, result = (module.add_metadata([module.add_metadata([ir.MetaDataString(module, name), domain])]) for name in names)
    return operands, result
