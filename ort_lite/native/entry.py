"""The C entry of a piece of native code, as LLVM assembly. It unpacks the descriptor and calls numba's function.

    status = entry(descriptor, memory, part, parts)        all int64

Descriptor: for pointer operand k, slot 2k is an index into the memory table and slot 2k + 1 an offset in bytes; the scalars follow,
8 bytes each. Entry 0 of the memory table is 0, so that (0, address) is an absolute address.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ort_lite.native.lang import RAISED
from ort_lite.native.spec import Spec, parameters

_LLVM = {"f32": "float", "f64": "double", "b1": "i1", "void": "void"}


def llvm_type(name: str) -> str:
    """Return the LLVM type of a parameter: "*f32" -> "ptr", "u8" -> "i8", "f64" -> "double"."""
    if name.startswith("*"):
        return "ptr"
    return _LLVM.get(name) or f"i{name[1:]}"


def arguments(spec: Spec, function: Callable[..., Any]) -> tuple[str, list[tuple[str, Any]]]:
    """Return the result type and, for each parameter, (type name, None) or ("static", value).

    A Static field of a record is ("constant", value). Raises TypeError on a mismatch.
    """
    statics = dict(spec.statics)
    result, types = "i64", list(spec.types)
    if spec.signature:
        result, _, inner = spec.signature.partition("(")
        types = [name for name in inner.rstrip(")").split(",") if name]
    found: list[tuple[str, Any]] = []
    for name, kind in parameters(function):
        if kind == "static":
            if name not in statics:
                raise TypeError(f"{spec.name}: no value for the Static parameter {name!r}")
            value = statics.pop(name)
            if "." in name and type(value) is not int:
                raise TypeError(f"{spec.name}: the Static field {name!r} is {value!r}, expected an integer")
            found.append(("constant" if "." in name else "static", value))
        elif spec.signature or kind == "pointer":
            if not types:
                raise TypeError(f"{spec.name}: no type for parameter {name!r}, the spec has {list(spec.types)}")
            found.append((types.pop(0) if spec.signature else "*" + types.pop(0), None))
        else:
            found.append((kind, None))
    if types or statics:
        raise TypeError(f"{spec.name}: types {types} and statics {sorted(statics)} belong to no parameter")
    if not spec.signature and found[-2:] != [("i64", None)] * 2:
        raise TypeError(f"{spec.name}: the last parameters of a kernel are `part: int, parts: int`")
    return result, found


def wrapper(spec: Spec, result: str, found: Sequence[tuple[str, Any]], callee: str, symbol: str) -> str:
    """Return the text of a module that defines `symbol`, for the parameters that `arguments` found."""
    names = [name for name, _ in found if name not in ("static", "constant")]
    given = [f"{llvm_type(name)} %a{k}" for k, name in enumerate(names)]
    formals = given if spec.signature else [f"i64 %{name}" for name in ("descriptor", "memory", "part", "parts")]
    rest = iter(given)
    passed = [f"i64 {value}" if name == "constant" else next(rest) for name, value in found if name != "static"]
    body = [] if spec.signature else _unpack(names)
    kind = "ptr" if result == "void" else llvm_type(result)
    out = llvm_type(result)
    body += [f"%r = alloca {kind}", "%e = alloca ptr", f"store {kind} {_zero(kind)}, ptr %r"]
    body.append(f'%s = call i32 @"{callee}"({", ".join(["ptr %r", "ptr %e", *passed])})')
    if result == "void":
        body.append("ret void")
    else:
        raised = RAISED if out == "i64" else _zero(out)
        body += [f"%v = load {out}, ptr %r", "%ok = icmp eq i32 %s, 0"]
        body += [f"%z = select i1 %ok, {out} %v, {out} {raised}", f"ret {out} %z"]
    lines = [f"define {out} @{symbol}({', '.join(formals)}) {{", *body, "}"]
    return "\n".join(lines)


def _zero(kind: str) -> str:
    return {"ptr": "null", "float": "0.0", "double": "0.0"}.get(kind, "0")


def _unpack(names: Sequence[str]) -> list[str]:
    lines = ["%d = inttoptr i64 %descriptor to ptr", "%m = inttoptr i64 %memory to ptr"]
    pointers = sum(name.startswith("*") for name in names)
    pointer, scalar = 0, 2 * pointers
    for k, name in enumerate(names[:-2]):
        if name.startswith("*"):
            lines += _slot(f"i{k}", "i64", 2 * pointer) + _slot(f"o{k}", "i64", 2 * pointer + 1)
            lines.append(f"%q{k} = getelementptr inbounds i64, ptr %m, i64 %i{k}")
            lines.append(f"%b{k} = load i64, ptr %q{k}")
            lines.append(f"%n{k} = add i64 %b{k}, %o{k}")
            lines.append(f"%a{k} = inttoptr i64 %n{k} to ptr")
            pointer += 1
        else:
            lines += _slot(f"a{k}", llvm_type(name), scalar)
            scalar += 1
    last = len(names)
    return [*lines, f"%a{last - 2} = add i64 %part, 0", f"%a{last - 1} = add i64 %parts, 0"]


def _slot(name: str, kind: str, slot: int) -> list[str]:
    address = f"%p{name} = getelementptr inbounds i64, ptr %d, i64 {slot}"
    return [address, f"%{name} = load {kind}, ptr %p{name}"]
