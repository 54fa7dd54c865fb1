"""Symbolic integers as three-address code: what the native binder evaluates for a shape.

All numbers of a segment live in one table of int64 slots: constants, then leaves (symbols with a value per shape), then one
slot per operation. Equal expressions share a slot. An operation is five int64s: opcode, three slots, and a number of its
own.
"""

from collections.abc import Iterable

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.shapes import Atom, Call, Expr, Symbol
from ort_lite.shapes.dims import inner_first
from ort_lite.shapes.expr import Dim

ADD, MUL, FLOORDIV, MOD, MAX, MIN, EQ, LT, SELECT, SCALE = range(10)
_OPCODES = {"floordiv": FLOORDIV, "mod": MOD, "max": MAX, "min": MIN, "eq": EQ, "lt": LT, "select": SELECT, "scale": SCALE}


class Code:
    """Collects expressions; `slot` gives the number of the slot that will hold a value.

    Slots are numbered as they are asked for; `initial` holds the constants at their places.
    """

    def __init__(self) -> None:
        self._constants: dict[int, int] = {}
        self._leaves: dict[Symbol, int] = {}
        self._operations: dict[tuple[int, ...], int] = {}
        self._memo: dict[Expr, int] = {}
        self._atoms: dict[Atom, int] = {}
        self.initial: list[int] = []
        self.addresses: dict[int, int] = {}
        """The slots of addresses of arrays, by id of the array."""
        self.code: list[tuple[int, ...]] = []  # (opcode, a, b, c, destination)

    @property
    def leaves(self) -> list[Symbol]:
        """The symbols whose values are read off arrays."""
        return list(self._leaves)

    @property
    def leaf_slots(self) -> list[int]:
        """The slots of the symbols."""
        return list(self._leaves.values())

    def reserve(self) -> int:
        """A slot that the binder fills by other means: the offset of a buffer."""
        self.initial.append(0)
        return len(self.initial) - 1

    def address(self, array: Array) -> int:
        """Return the slot of the address of an array: no slot of a number, so that another array may take its place."""
        found = self.addresses.get(id(array))
        if found is None:
            found = self.addresses[id(array)] = self.reserve()
            self.initial[found] = array.ctypes.data
        return found

    def slot(self, dim: Dim) -> int:
        """Return the slot of a dimension, and add code that computes it."""
        if isinstance(dim, int):
            found = self._constants.get(dim)
            if found is None:
                found = self._constants[dim] = self.reserve()
                self.initial[found] = min(max(dim, -(1 << 63)), (1 << 63) - 1)  # beyond: a size that `bind` refuses
            return found
        known = self._memo.get(dim)
        if known is None:
            for atom in inner_first(dim, self._atoms):
                self._atoms[atom] = self._leaf(atom) if isinstance(atom, Symbol) else self._call(atom)
            known = self._memo[dim] = self._polynomial(dim)
        return known

    def slots(self, dims: Iterable[Dim]) -> list[int]:
        """The slot of each: nearly all are numbers that others have too."""
        known = self._constants
        return [known[dim] if type(dim) is int and dim in known else self.slot(dim) for dim in dims]

    def _polynomial(self, dim: Expr) -> int:
        total: int | None = None
        for monomial, coefficient in dim.terms:
            term: int | None = None
            for atom in monomial:
                factor = self._atoms[atom]
                term = factor if term is None else self._emit(MUL, *sorted((term, factor)))
            if term is None:
                term = self.slot(coefficient)
            elif coefficient != 1:
                term = self._emit(MUL, term, self.slot(coefficient))
            total = term if total is None else self._emit(ADD, total, term)
        assert total is not None
        return total

    def _leaf(self, symbol: Symbol) -> int:
        if symbol not in self._leaves:
            self._leaves[symbol] = self.reserve()
        return self._leaves[symbol]

    def _call(self, call: Call) -> int:
        if call.op == "whole":
            return self.slot(call.args[0])
        return self._emit(_OPCODES[call.op], *(self.slot(arg) for arg in call.args))

    def _emit(self, opcode: int, *slots: int) -> int:
        key = (opcode, *slots, *(0,) * (3 - len(slots)))
        if key not in self._operations:
            self._operations[key] = self.reserve()
            self.code.append((*key, self._operations[key]))
        return self._operations[key]

    def table(self) -> Array:
        """The operations, (n, 5) int64."""
        return np.array(self.code, np.int64).reshape(len(self.code), 5)
