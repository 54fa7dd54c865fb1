"""Emission of LLVM IR on vectors, for kernels for which loops over scalars are not enough."""

from collections.abc import Callable, Sequence
from typing import Any

from ort_lite_cpu.kernels.square import ask_for


class Vectors:
    """Emits operations on vectors of `lanes` elements."""

    def __init__(self, builder: Any, element: Any, lanes: int) -> None:
        from llvmlite import ir

        self.ir, self.builder, self.lanes, self.element = ir, builder, lanes, element
        self.type = ir.VectorType(element, lanes)
        self.zero = ir.Constant(self.type, [0.0] * lanes)
        self.nbytes = 4 if isinstance(element, ir.FloatType) else 8

    @property
    def name(self) -> str:
        """Return LLVM's name for the vector type, as in v16f32."""
        return _name_of(self.type)

    # --- integers, addresses and control
    def integer(self, value: int) -> Any:
        """Return a 64-bit constant."""
        return self.ir.Constant(self.ir.IntType(64), value)

    def mul(self, x: Any, factor: int) -> Any:
        """Return an integer times a constant."""
        return self.builder.mul(x, self.integer(factor))

    def bit(self, mode: Any, bit: int) -> Any:
        """Return true if `mode` has the bit."""
        return self.builder.icmp_signed("!=", self.builder.and_(mode, self.integer(bit)), self.integer(0))

    def move(self, pointer: Any, count: Any) -> Any:
        """Return the pointer, moved by `count` elements."""
        return self.builder.gep(pointer, [count])

    def opaque(self, pointer: Any) -> Any:
        """Return the pointer, hidden from the optimiser, which would otherwise compute it from others in every round."""
        return self.builder.asm(self.ir.FunctionType(pointer.type, [pointer.type]), "", "=r,0", [pointer], False)

    def after(self, pointer: Any, *values: Any) -> Any:
        """Return the pointer with a dependency on `values`, whole vectors: no scheduler moves a read from it in front of them."""
        values = tuple(self._whole(value) for value in values)
        kinds = [pointer.type, *(value.type for value in values)]
        register = "v" if self.builder.module.triple.startswith("x86_64") else "w"
        constraints = ",".join(["=r", "0", *(register for _ in values)])
        return self.builder.asm(self.ir.FunctionType(pointer.type, kinds), "", constraints, [pointer, *values], False)

    def _whole(self, value: Any) -> Any:
        """Return the value, extended to at least 16 bytes, the least that a register of SSE2 can hold here."""
        held, least = value.type.count, 16 // self.nbytes
        if held >= least:
            return value
        order = self.ir.Constant(self.ir.VectorType(self.ir.IntType(32), least), [min(k, held) for k in range(least)])
        return self.builder.shuffle_vector(value, self.ir.Constant(value.type, self.ir.Undefined), order)

    def when(self, condition: Any, values: list[Any], change: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """Return change(values) if the condition holds at run time, else values."""
        builder = self.builder
        before = builder.block
        with builder.if_then(condition):
            changed = change(values)
            last = builder.block
        return [self._merge([(x, before), (y, last)]) for x, y in zip(values, changed, strict=True)]

    def _merge(self, incoming: Sequence[tuple[Any, Any]]) -> Any:
        phi = self.builder.phi(incoming[0][0].type)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def loop(
        self, start: Any, end: Any, step: int, values: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
    ) -> tuple[Any, list[Any]]:
        """Emit `for at in start, start + step, ... while at + step <= end: values = body(at, values)`. Return the last of both."""
        builder = self.builder
        entry, inside, after = builder.block, builder.append_basic_block("k"), builder.append_basic_block("end")
        bound = builder.sub(end, self.integer(step - 1))
        builder.cbranch(builder.icmp_signed("<", start, bound), inside, after)
        builder.position_at_end(inside)
        at = builder.phi(self.ir.IntType(64))
        at.add_incoming(start, entry)
        carried = [self._merge([(value, entry)]) for value in values]
        new = body(at, carried)
        following = builder.add(at, self.integer(step))
        at.add_incoming(following, builder.block)
        for phi, value in zip(carried, new, strict=True):
            phi.add_incoming(value, builder.block)
        last = builder.block
        builder.cbranch(builder.icmp_signed("<", following, bound), inside, after)
        builder.position_at_end(after)
        position = builder.phi(self.ir.IntType(64))
        position.add_incoming(start, entry)
        position.add_incoming(following, last)
        return position, [self._merge([(x, entry), (y, last)]) for x, y in zip(values, new, strict=True)]

    # --- memory
    def _pointer(self, pointer: Any, at: int) -> Any:
        return self.builder.bitcast(self.move(pointer, self.integer(at)), self.type.as_pointer())

    def load(self, pointer: Any, at: int, mask: Any = None) -> Any:
        """Return elements `at` to `at + lanes`; a mask selects those that are read."""
        address = self._pointer(pointer, at)
        if mask is None:
            return self.builder.load(address, align=self.nbytes)
        return self.masked_load(address, self.type, self.nbytes, mask)

    def masked_load(self, address: Any, kind: Any, align: int, mask: Any) -> Any:
        """Return a vector of type `kind`: elements that the mask selects, and zeros."""
        kinds = [address.type, self.ir.IntType(32), mask.type, kind]
        function = self._declare(f"llvm.masked.load.{_name_of(kind)}.p0", kind, kinds)
        zero = self.ir.Constant(kind, [0] * kind.count)
        return self.builder.call(function, [address, self.ir.Constant(kinds[1], align), mask, zero])

    def load_wide(self, pointer: Any, at: int) -> Any:
        """Return elements `at` to `at + lanes`, widened if the pointer is one to bits of float16."""
        if pointer.type.pointee == self.element:
            return self.load(pointer, at)
        halves = self.ir.VectorType(self.ir.HalfType(), self.lanes).as_pointer()
        found = self.builder.load(self.builder.bitcast(self.move(pointer, self.integer(at)), halves), align=2)
        return self.builder.fpext(found, self.type)

    def store(self, value: Any, pointer: Any, at: int, mask: Any = None) -> None:
        """Write elements `at` to `at + lanes`; a mask selects those that are written."""
        self.store_as(value, self.move(pointer, self.integer(at)), mask, self.nbytes)

    def store_as(self, value: Any, place: Any, mask: Any = None, align: int = 1) -> None:
        """Write a vector of whatever element type to the elements at `place`; a mask selects those that are written."""
        place = self.builder.bitcast(place, value.type.as_pointer())
        if mask is None:
            self.builder.store(value, place, align=align)
            return
        kinds = [value.type, place.type, self.ir.IntType(32), mask.type]
        function = self._declare(f"llvm.masked.store.{_name_of(value.type)}.p0", self.ir.VoidType(), kinds)
        self.builder.call(function, [value, place, self.ir.Constant(kinds[2], align), mask])

    def store_rows(self, m: Any, n: Any, rows: int, vectors: int, store: Callable[[int, bool], None]) -> None:
        """Emit store(row, whole) for the first m of `rows` rows. They are `whole` if n is at least the elements of all vectors."""
        builder = self.builder
        whole = builder.icmp_signed(">=", n, self.integer(vectors * self.lanes))
        for row in range(rows):
            inside = builder.icmp_signed("<", self.integer(row), m)
            with builder.if_then(inside), builder.if_else(whole) as (full, part):
                with full:
                    store(row, True)
                with part:
                    store(row, False)

    def store_tile(self, values: Sequence[Any], c: Any, ldc: Any, m: Any, n: Any, vectors: int) -> None:
        """Write the first m rows and n columns of a register tile. Its values are in the order of its rows, `vectors` in each."""
        masks = self.masks(n, vectors)

        def store(row: int, whole: bool) -> None:
            target = self.move(c, self.mul(ldc, row))
            for j in range(vectors):
                self.store(values[row * vectors + j], target, j * self.lanes, None if whole else masks[j])

        self.store_rows(m, n, len(values) // vectors, vectors, store)

    def words(self, pointer: Any) -> Any:
        """Return a pointer to narrower numbers as one to elements, each of which has several of them."""
        return self.builder.bitcast(pointer, self.element.as_pointer())

    def prefetch(self, pointer: Any) -> None:
        """Prefetch a cache line; any address is allowed."""
        ask_for(self.builder, pointer)

    def splat_bit(self, bit: Any) -> Any:
        """Return a mask that selects all lanes if a bit is true, none otherwise."""
        kind = self.ir.VectorType(self.ir.IntType(1), self.lanes)
        return self.builder.select(bit, kind([True] * self.lanes), kind([False] * self.lanes))

    def masks(self, n: Any, vectors: int) -> list[Any]:
        """Return the masks that select the first n elements of some vectors beside each other."""
        return [self.mask(self.builder.sub(n, self.integer(j * self.lanes))) for j in range(vectors)]

    def mask(self, count: Any) -> Any:
        """Return a mask that selects the first `count` lanes."""
        kind = self.ir.VectorType(self.ir.IntType(32), self.lanes)
        numbers = self.ir.Constant(kind, list(range(self.lanes)))
        return self.builder.icmp_signed("<", numbers, self._splat(self.builder.trunc(count, self.ir.IntType(32)), kind))

    def mask_between(self, first: Any, count: Any) -> Any:
        """Return a mask that selects the lanes whose numbers `first`, `first` + 1, ... lie in 0..count."""
        word, kind = self.ir.IntType(32), self.ir.VectorType(self.ir.IntType(32), self.lanes)
        numbers = self.ir.Constant(kind, list(range(self.lanes)))
        start, limit = (self._splat(self.builder.trunc(value, word), kind) for value in (first, count))
        return self.builder.icmp_unsigned("<", self.builder.add(start, numbers), limit)

    # --- arithmetic
    def constant(self, value: float) -> Any:
        """Return a vector of constants."""
        return self.ir.Constant(self.type, [value] * self.lanes)

    def splat(self, scalar: Any) -> Any:
        """Return a vector of copies of a scalar."""
        return self._splat(scalar, self.type)

    def _splat(self, scalar: Any, kind: Any) -> Any:
        zeros = self.ir.Constant(self.ir.VectorType(self.ir.IntType(32), self.lanes), [0] * self.lanes)
        undefined = self.ir.Constant(kind, self.ir.Undefined)
        single = self.builder.insert_element(undefined, scalar, self.ir.Constant(self.ir.IntType(32), 0))
        return self.builder.shuffle_vector(single, undefined, zeros)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Return x * y + z, fused if the target can."""
        return self.builder.call(self._declare(f"llvm.fmuladd.{self.name}", self.type, [self.type] * 3), [x, y, z])

    def times(self, x: Any, factor: float) -> Any:
        """Return x times a constant."""
        return self.builder.fmul(x, self.constant(factor))

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        return self.builder.fadd(x, y)

    def sub(self, x: Any, y: Any) -> Any:
        """Return x - y."""
        return self.builder.fsub(x, y)

    def add_all(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """Return the sums, vector by vector."""
        return [self.builder.fadd(x, y) for x, y in zip(left, right, strict=True)]

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Return x within [low, high]; NaN stays NaN."""
        x = self.builder.select(self.builder.fcmp_ordered(">", low, x), low, x)
        return self.builder.select(self.builder.fcmp_ordered("<", high, x), high, x)

    def _declare(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        found = self.builder.module.globals.get(name)
        return found or self.ir.Function(self.builder.module, self.ir.FunctionType(result, arguments), name)


def _name_of(kind: Any) -> str:
    """Return LLVM's name for a vector type."""
    return f"v{kind.count}{kind.element.intrinsic_name}"
