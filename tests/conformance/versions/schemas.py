"""What ONNX's schemas say: which versions there are, and which element types their main type variable may have."""

from collections.abc import Sequence
from functools import cache

import onnx

from ort_lite.dtypes import from_ort_name, is_dtype

Key = tuple[str, str, int]
"""Domain, operator, version."""
OpSchema = onnx.defs.OpSchema
_VARIADIC = OpSchema.FormalParameterOption.Variadic


@cache
def schemas() -> dict[Key, OpSchema]:
    """All there ever were, sorted."""
    every = {(one.domain, one.name, one.since_version): one for one in onnx.defs.get_all_schemas_with_history()}
    return dict(sorted(every.items()))


def newest() -> dict[Key, OpSchema]:
    """The newest version of each operator that is not deprecated."""
    last = {key[:2]: key for key, schema in schemas().items() if not schema.deprecated}
    return {key: schemas()[key] for key in last.values()}


def formal(parameters: Sequence[OpSchema.FormalParameter], position: int) -> OpSchema.FormalParameter | None:
    """The parameter that the operand at `position` belongs to; the last one may be variadic."""
    if position < len(parameters):
        return parameters[position]
    return parameters[-1] if parameters and parameters[-1].option == _VARIADIC else None


def variables(schema: OpSchema) -> dict[str, tuple[str, ...]]:
    """Type variable -> the element types it allows, those inside sequences and optionals too."""
    return {one.type_param_str: _elements(one.allowed_type_strs) for one in schema.type_constraints}


def main_variable(schema: OpSchema) -> str | None:
    """The input variable with the most types, the first of several; of operators that have none, the outputs'."""
    types = variables(schema)
    for parameters in (schema.inputs, schema.outputs):
        names = [one.type_str for one in parameters if len(types.get(one.type_str, ())) > 1]
        if names:
            return max(names, key=lambda name: len(types[name]))
    return None


def main_types(schema: OpSchema) -> tuple[str, ...]:
    name = main_variable(schema)
    return () if name is None else variables(schema)[name]


def has_containers(schema: OpSchema) -> bool:
    """Whether sequences or optionals go in or out."""
    return any(text.startswith(("seq(", "optional(")) for one in schema.type_constraints for text in one.allowed_type_strs)


def follows(schema: OpSchema, position: int) -> bool:
    """Whether the input at `position` has the main type; with sequences, what goes in and out of them has it as well."""
    main, parameter = main_variable(schema), formal(schema.inputs, position)
    if main is None or parameter is None:
        return False
    if parameter.type_str == main:
        return True
    return has_containers(schema) and set(variables(schema).get(parameter.type_str, ())) == set(main_types(schema))


def _elements(spelled: Sequence[str]) -> tuple[str, ...]:
    names = dict.fromkeys(
        from_ort_name("tensor(" + text.split("tensor(")[1].rstrip(")")) for text in spelled if "tensor(" in text
    )
    return tuple(name for name in names if is_dtype(name))
