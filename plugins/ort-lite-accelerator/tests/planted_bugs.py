"""Bugs that vendors write, each planted in the accelerator: kernels, fusions, states, memory, saved programs, options, claims.

Long, and one file: a list. Nothing here knows more of each other than what `bug` keeps.
"""

import importlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from ort_lite_accelerator import AcceleratorExecutionProvider, kernels, memory, operators, planned, program, provider
from ort_lite_accelerator.memory import CardStream, CardTensor, CardTransfer, on_card, store
from ort_lite_accelerator.program import CardExecutable, CardProgram
from ort_lite_accelerator.queue import CardQueue, CardWork

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.memory.allocators import ArenaAllocator, Chunk
from ort_lite.memory.planning.declarations import parse_memories
from ort_lite.options import RunOptions
from ort_lite.provider import Capability, Device, GraphView, Rejection

Chunks = Sequence[Chunk | None]
Plant = Callable[[pytest.MonkeyPatch], Any]
Cards = list[Any]
Call = Callable[..., Cards]


class Bug(NamedTuple):
    """`check` is the one that is there to find it, on these operators."""

    check: str
    operators: tuple[str, ...]
    plant: Plant


BUGS: dict[str, Bug] = {}


def bug(check: str, *operators: str) -> Callable[[Plant], Plant]:
    """Notes a function that plants a bug, by its name; the provider is what it returns, else the accelerator."""

    def noted(plant: Plant) -> Plant:
        BUGS[plant.__name__] = Bug(check, operators, plant)
        return plant

    return noted


# More operators, so that their bugs have a place


def _softmax(stream: CardStream, s: Mapping[str, Any], x: Array) -> Array:
    e = np.exp(x - x.max(axis=s["axis"], keepdims=True, initial=-np.inf))
    result: Array = e / e.sum(axis=s["axis"], keepdims=True)
    return result


def _layer_norm(stream: CardStream, s: Mapping[str, Any], x: Array, scale: Array, bias: Array | None = None) -> Array:
    axes = tuple(range(s["axis"] % x.ndim, x.ndim))
    y = (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + np.float32(s["epsilon"])) * scale
    result: Array = y if bias is None else y + bias
    return result


def _reduce_max(stream: CardStream, s: Mapping[str, Any], x: Array) -> Array:
    if not s["axes"] and s["noop_with_empty_axes"]:
        return x
    result: Array = x.max(axis=tuple(s["axes"]) or None, keepdims=bool(s["keepdims"]), initial=-np.inf)
    return np.asarray(result)


def _average_pool(stream: CardStream, s: Mapping[str, Any], x: Array) -> Array:
    axes = tuple(range(-len(s["window"]), 0))
    image = np.moveaxis(x, 1, -1)
    total = kernels._windows(image, s, 0).sum(axis=axes)
    count = prod(s["window"]) if s["count_include_pad"] else kernels._windows(np.ones_like(image), s, 0).sum(axis=axes)
    result: Array = np.moveaxis(total / count, -1, 1).astype(np.float32)
    return result


MORE: Mapping[str, tuple[Callable[..., Array], dict[str, Any], int]] = {
    "Softmax": (_softmax, {"axis": -1}, 13),
    "LayerNormalization": (_layer_norm, {"axis": -1, "epsilon": 1e-5}, 17),
    "ReduceMax": (_reduce_max, {"keepdims": 1, "noop_with_empty_axes": 0}, 18),
    "AveragePool": (_average_pool, {"count_include_pad": 0}, 11),
    "LeakyRelu": (lambda stream, s, x: np.where(x < 0, np.float32(s["alpha"]) * x, x), {"alpha": 0.01}, 6),
    "Transpose": (lambda stream, s, x: np.transpose(x, s["perm"]), {"perm": None}, 1),
}
"""Operator -> kernel, attributes with their defaults, the first opset version."""


def widen(patch: pytest.MonkeyPatch) -> None:
    """Gives the accelerator the operators of MORE."""
    settings, misfit = program._settings, operators.misfit

    def more_settings(node: Node) -> dict[str, Any]:
        found = settings(node)
        if node.op_type == "ReduceMax":
            axes = node.inputs[1].constant if len(node.inputs) > 1 and node.inputs[1] is not None else None
            found["axes"] = [] if axes is None else axes.tolist()
        if node.op_type == "AveragePool":
            ones = [1] * len(node.attr("kernel_shape"))
            found |= {"window": node.attr("kernel_shape"), "pads": node.attr("pads", [0, 0] * len(ones))}
            found |= {"strides": node.attr("strides", ones), "dilations": node.attr("dilations", ones)}
        return found

    def wide_misfit(node: Node) -> Rejection | None:
        if node.op_type == "ReduceMax" and node.version >= 18:
            axes, x = node.inputs[1] if len(node.inputs) > 1 else None, node.inputs[0]
            right = x is not None and x.dtype == "float32" and (axes is None or axes.constant is not None)
            return None if right else Rejection(node, "type", "float32 along axes that are constants")
        return misfit(node)

    for name, (kernel, attributes, since) in MORE.items():
        patch.setitem(kernels.KERNELS, name, kernel)
        patch.setitem(program._DEFAULTS, name, attributes)
        patch.setitem(operators.SINCE, name, since)
    patch.setattr(program, "_settings", more_settings)
    patch.setattr(provider, "misfit", wide_misfit)
    compiled = program.compile_program

    def without_axes(partition: Any) -> CardProgram:
        made = compiled(partition)
        rows = [row._replace(operands=row.operands[:1]) if row.kernel == "ReduceMax" else row for row in made.instructions]
        return made._replace(instructions=rows)

    patch.setattr(provider, "compile_program", without_axes)


def change_kernel(patch: pytest.MonkeyPatch, name: str, change: Callable[..., Array]) -> None:
    """`change(right, stream, settings, *operands)` in the place of a kernel; `right` is the kernel."""
    right = kernels.KERNELS[name]
    patch.setitem(kernels.KERNELS, name, lambda *given: change(right, *given))


def kernel_bug(check: str, *operators: str, kernel: str = "") -> Callable[[Callable[..., Any]], None]:
    """As `bug`, for the `change` of a kernel, that of the first operator unless `kernel` names another."""

    def noted(change: Callable[..., Any]) -> None:
        BUGS[change.__name__] = Bug(check, operators, lambda patch: change_kernel(patch, kernel or operators[0], change))

    return noted


def bug_in(owner: Any, name: str, check: str, *operators: str) -> Callable[[Callable[..., Any]], None]:
    """As `bug`, for a function in the place of `owner.name`; its first argument is the right one."""

    def noted(call: Callable[..., Any]) -> None:
        def plant(patch: pytest.MonkeyPatch) -> None:
            right = getattr(owner, name)
            patch.setattr(owner, name, lambda *given: call(right, *given))

        BUGS[call.__name__] = Bug(check, operators, plant)

    return noted


def call_bug(check: str, *operators: str) -> Callable[[Callable[..., Any]], None]:
    """As `bug`, for a function in the place of `CardExecutable.into_memory`; its first argument is the right one.

    It is called for donated inputs too, as by a card that does not compute in place.
    """

    def noted(call: Callable[..., Any]) -> None:
        def plant(patch: pytest.MonkeyPatch) -> None:
            right = CardExecutable.into_memory
            patch.setattr(CardExecutable, "into_memory", lambda *given: call(right, *given))
            patch.setattr(CardExecutable, "call_donating", lambda self, inputs, donated, state: self(inputs, state))

        BUGS[call.__name__] = Bug(check, operators, plant)

    return noted


def setting(patch: pytest.MonkeyPatch, name: str, **values: Any) -> None:
    """A kernel that knows these settings alone."""
    change_kernel(patch, name, lambda right, stream, s, *xs: right(stream, {**s, **values}, *xs))


# Kernels that ignore a setting

IGNORED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "padding_always_counted": ("AveragePool", {"count_include_pad": 1}),
    "alpha_ignored": ("Gemm", {"alpha": 1.0}),
    "beta_ignored": ("Gemm", {"beta": 1.0}),
    "trans_a_ignored": ("Gemm", {"transA": 0}),
    "epsilon_fixed": ("LayerNormalization", {"epsilon": 1e-05}),
    "the_last_axis_alone": ("LayerNormalization", {"axis": -1}),
    "gathers_along_the_first_axis": ("Gather", {"axis": 0}),
    "a_shape_from_its_start": ("Shape", {"start": 0}),
    "keepdims_ignored": ("ReduceMax", {"keepdims": 1}),
    "no_axes_are_all_axes": ("ReduceMax", {"noop_with_empty_axes": 0}),
    "zero_in_a_shape_is_zero": ("Reshape", {"allowzero": 1}),
    "allowzero_ignored": ("Reshape", {"allowzero": 0}),
}
"""Bug -> operator, and the values that its kernel takes whatever a node says."""

BUGS |= {
    bug: Bug("attributes", (operator,), partial(setting, name=operator, **values))
    for bug, (operator, values) in IGNORED.items()
}


# Kernels

CHANGES: Mapping[tuple[str, ...], Mapping[str, Callable[..., Any]]] = {
    ("attributes", "Conv"): {
        "bias_ignored": lambda right, stream, s, x, w, b=None, z=None: right(stream, s, x, w, None, z),
        "dilations_ignored": lambda right, stream, s, *xs: right(stream, {**s, "dilations": [1] * len(s["window"])}, *xs),
        "all_groups_have_the_first_ones_weights": lambda right, stream, s, x, w, *xs: right(
            stream, s, x, np.repeat(w[:1], len(w), 0), *xs
        ),
        "strides_in_the_other_order": lambda right, stream, s, *xs: right(stream, {**s, "strides": s["strides"][::-1]}, *xs),
        "the_first_image_for_the_whole_batch": lambda right, stream, s, x, *xs: right(
            stream, s, np.repeat(x[:1], len(x), 0), *xs
        ),
    },
    ("attributes", "MaxPool"): {
        "pool_dilations_ignored": lambda right, stream, s, x: right(stream, {**s, "dilations": [1] * len(s["window"])}, x)
    },
    ("attributes", "GlobalAveragePool"): {
        "averages_of_two_dimensions_alone": lambda right, _, s, x: x.mean(axis=(1, 2) if s["last"] else (2, 3), keepdims=True)
    },
    ("numbers", "Relu"): {"nan_swallowed_by_relu": lambda right, _, s, x: np.fmax(x, np.float32(0))},
    ("numbers", "Mul"): {
        "nothing_times_infinity_is_nothing": lambda right, _, s, a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b)
    },
    ("numbers", "Softmax"): {
        "exponentials_overflow": lambda right, _, s, x: np.exp(x) / np.exp(x).sum(axis=s["axis"], keepdims=True)
    },
    ("attributes", "Relu"): {
        "empty_tensors_crash": lambda right, stream, s, x: right(stream, s, x) + 0 * x.reshape(-1)[0],
        "numbers_become_vectors": lambda right, stream, s, x: np.atleast_1d(right(stream, s, x)),
    },
    ("attributes", "Add"): {"broadcasting_of_the_second_alone": lambda right, _, s, a, b: a + np.broadcast_to(b, a.shape)},
    ("attributes", "Mul"): {
        "broadcasting_of_numbers_and_equals_alone": lambda right, stream, s, a, b: (
            a * (b if b.size == 1 else np.resize(b, a.shape) if a.size >= b.size else b)
        )
    },
    ("attributes", "Gemm"): {
        "trans_b_ignored": lambda right, stream, s, a, b, *c: right(
            stream, {**s, "transB": 0} if b.shape[0] == b.shape[1] else s, a, b, *c
        ),
        "columns_of_c_taken_for_rows": lambda right, stream, s, a, b, c=None: right(
            stream, s, a, b, c if c is None or c.ndim < 2 or c.shape[1] > 1 else np.resize(c, (1, c.size))[:, :1]
        ),
    },
    ("attributes", "MatMul"): {
        "vectors_stay_matrices": lambda right, _, s, a, b: np.atleast_2d(a) @ b,
        "the_first_matrix_of_a_batch": lambda right, _, s, a, b: a @ (b[:1] if b.ndim > 2 and len(b) else b),
    },
    ("attributes", "Flatten"): {
        "negative_axes_taken_for_the_first": lambda right, stream, s, x: right(stream, {**s, "axis": max(s["axis"], 0)}, x)
    },
    ("attributes", "Softmax"): {
        "negative_axes_without_their_sign": lambda right, stream, s, x: right(
            stream, {**s, "axis": min(abs(s["axis"]), x.ndim - 1)}, x
        )
    },
    ("attributes", "LeakyRelu"): {"slopes_are_positive": lambda right, _, s, x: np.maximum(x, np.float32(s["alpha"]) * x)},
    ("attributes", "Concat"): {"concatenation_from_the_front": lambda right, _, s, *xs: np.concatenate(xs, abs(s["axis"]))},
    ("attributes", "Unsqueeze"): {
        "axes_of_the_input": lambda right, stream, s, x, axes: right(stream, s, x, np.where(axes < 0, axes + x.ndim, axes))
    },
    ("attributes", "Transpose"): {
        "permutations_inverted": lambda right, _, s, x: x.transpose(s["perm"] and np.argsort(s["perm"])),
        "strides_of_a_result_ignored": lambda right, stream, s, x: (y := right(stream, s, x)).ravel("K").reshape(y.shape),
    },
    ("graphs", "Conv", "Add"): {
        "fused_sum_of_the_first_image": lambda right, stream, s, x, w, b=None, z=None: right(
            stream, s, x, w, b, z if z is None else z[:1]
        )
    },
    ("graphs", "Relu", "Add"): {"relu_in_place": lambda right, _, s, x: np.maximum(x, 0, out=x)},
    ("handles", "Relu"): {"an_input_written_to": lambda right, _, s, x: np.maximum(x, 0, out=x)},
}
"""Check and operators -> bugs, and what each makes of a call of the first operator's kernel, `right`."""

BUGS |= {
    bug: Bug(key[0], key[1:], partial(change_kernel, name=key[1], change=change))
    for key, changes in CHANGES.items()
    for bug, change in changes.items()
}


@kernel_bug("attributes", "Conv")
def pads_of_both_ends_exchanged(right: Any, stream: CardStream, s: Any, *xs: Any) -> Any:
    rank = len(s["window"])
    return right(stream, {**s, "pads": [*s["pads"][rank:], *s["pads"][:rank]]}, *xs)


@kernel_bug("attributes", "Conv")
def windows_of_three_at_least(right: Any, stream: CardStream, s: Any, x: Array, *xs: Any) -> Any:
    if max(s["window"]) == 1:
        raise RuntimeError("the card has no 1x1")
    return right(stream, s, x, *xs)


@bug_in(kernels, "_windows", "attributes", "MaxPool")
def maxima_padded_with_zeros(right: Any, image: Array, s: Any, fill: float) -> Any:
    return right(image, s, 0)


@bug("numbers", "Add")
def sums_saturate(patch: pytest.MonkeyPatch) -> None:
    largest = np.finfo(np.float32).max
    change_kernel(patch, "Add", lambda right, stream, s, a, b: np.clip(a + b, -largest, largest))


# Fusions, layouts, and who else reads a value


@bug("graphs", "Conv", "Relu")
def fused_relu_dropped(patch: pytest.MonkeyPatch) -> None:
    setting(patch, "Conv", relu=0)


@kernel_bug("graphs", "Conv", "Add", "Relu")
def relu_before_the_fused_sum(right: Any, stream: CardStream, s: Any, x: Array, w: Array, b: Any = None, z: Any = None) -> Any:
    y = right(stream, s, x, w, b)
    return y if z is None else y + z


@bug_in(provider, "compile_program", "graphs", "Conv", "Relu", "Add")
def other_readers_get_the_fused_value(right: Any, partition: Any) -> CardProgram:
    """A peephole in the compiler: Relu moves into the Conv before it, whoever else reads that."""
    made: CardProgram = right(partition)
    by_result = {row.result: row for row in made.instructions}
    for row in made.instructions:
        before = by_result.get(row.operands[0])
        if row.kernel == "Relu" and before is not None and before.kernel == "Conv":
            before.settings["relu"] = 1
    return made


@kernel_bug("graphs", "MatMul", "Add", kernel="Gemm")
def a_fused_row_added_to_the_columns(right: Any, stream: CardStream, s: Any, a: Array, b: Array, c: Array | None = None) -> Any:
    return right(stream, s, a, b, c if c is None or c.ndim != 1 else np.resize(c, (len(a), 1)))


@kernel_bug("attributes", "Conv")
def weights_in_the_order_of_the_other_layout(right: Any, stream: CardStream, s: Any, x: Array, w: Array, *xs: Any) -> Any:
    if s["last"] and prod(s["window"]) > 1:
        groups, taps, channels = w.shape
        w = w.reshape(groups, -1, prod(s["window"]), channels).swapaxes(1, 2).reshape(groups, taps, channels)
    return right(stream, s, x, w, *xs)


@kernel_bug("attributes", "MaxPool")
def pads_of_channels_last_in_the_other_order(right: Any, stream: CardStream, s: Any, x: Array) -> Any:
    rank = len(s["window"])
    pads = [*s["pads"][:rank][::-1], *s["pads"][rank:][::-1]]
    return right(stream, {**s, "pads": pads} if s["last"] else s, x)


@bug_in(CardExecutable, "_submit_program", "graphs", "Relu", "Mul", "Add")
def outputs_in_the_order_of_the_nodes_reversed(right: Call, self: Any, *given: Any) -> Cards:
    return right(self, *given)[::-1]


@bug_in(program._Numbers, "operand", "constants", "Add", "MatMul")
def constants_transposed(right: Any, self: Any, node: Node, position: int) -> Any:
    known = right(self, node, position)
    if known in self.constants and self.constants[known].ndim > 1:
        self.constants[known] = self.constants[known] * 0
    return known


# Sizes


@bug("sizes", "Flatten", "Transpose")
def shapes_remembered_by_the_first_dimension(patch: pytest.MonkeyPatch) -> None:
    known: dict[int, tuple[int, ...]] = {}

    def cached(right: Any, stream: CardStream, s: Any, x: Array) -> Any:
        shape = known.setdefault(x.shape[0], right(stream, s, x).shape)
        return np.resize(x, shape)

    change_kernel(patch, "Flatten", cached)


@call_bug("sizes", "MatMul")
def one_shape_for_ever(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    shapes = [x.shape for x in inputs]
    if self.__dict__.setdefault("shapes", shapes) != shapes:
        raise RuntimeError("compiled for other shapes")
    return right(self, inputs, chunks, state)


# States and threads


@bug_in(CardExecutable, "create_state", "handles", "Conv", "Relu")
def one_state_for_all_threads(right: Any, self: Any) -> Any:
    return self.__dict__.setdefault("stream", right(self))


def _at_once(queue: CardQueue, call: Callable[[], object], after: Sequence[CardWork] = ()) -> CardWork:
    """Do the work of each thread at once, beside that of others."""
    work = CardWork(call, after)
    work.run()
    return work


@bug("threads", "Conv")
def one_scratch_memory_for_all_threads(patch: pytest.MonkeyPatch) -> None:
    buffers: dict[tuple[int, ...], Array] = {}
    patch.setattr(CardQueue, "submit", _at_once)
    patch.setattr(CardStream, "scratch", lambda self, shape: buffers.setdefault(shape, np.empty(shape, np.float32)))


@call_bug("threads", "Relu", "Add")
def operands_kept_in_the_program(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    self.cache_of_inputs = inputs
    return right(self, self.cache_of_inputs, chunks, state)


@call_bug("handles", "Relu")
def results_in_the_buffer_of_the_last_call(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    made = right(self, inputs, chunks, state)
    kept = self.__dict__.setdefault("pool", {})
    for k, y in enumerate(made):
        buffer = kept.setdefault((k, y.shape), y)
        on_card(buffer)[...] = on_card(y)
        made[k] = buffer
    return made


@bug("allocator", "Conv")
def states_never_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CardExecutable, "release_state", lambda self, state: None)


@call_bug("statelessness", "Relu")
def the_last_values_kept(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    self.last = inputs
    return right(self, inputs, chunks, state)


@bug("statelessness", "MatMul")
def results_depend_on_the_number_of_runs(patch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def drifting(right: Any, stream: CardStream, s: Any, a: Array, b: Array) -> Any:
        runs.append(1)
        return right(stream, s, a, b) * np.float32(1 + 1e-6 * (len(runs) % 3))

    change_kernel(patch, "MatMul", drifting)


# Memory


@bug_in(program, "store", "allocator", "MatMul")
def never_freed(right: Any, array: Array, arena: ArenaAllocator, given: Chunk | None = None) -> CardTensor:
    made = CardTensor(arena.allocate(array.nbytes), array.dtype, array.shape)
    on_card(made)[...] = array
    return made


def _free_twice(arena: ArenaAllocator, chunk: Any) -> None:
    arena.free(chunk)
    with suppress(InvalidArgument):
        arena.free(chunk)


@bug_in(program, "store", "allocator", "MatMul")
def freed_twice(right: Any, array: Array, arena: ArenaAllocator, given: Chunk | None = None) -> CardTensor:
    made = CardTensor(arena.allocate(array.nbytes), array.dtype, array.shape)
    weakref.finalize(made, _free_twice, arena, made.memory).atexit = False
    on_card(made)[...] = array
    return made


@bug_in(program, "store", "claims", "MatMul")
def a_byte_too_few(right: Any, array: Array, arena: ArenaAllocator, given: Chunk | None = None) -> CardTensor:
    chunk = arena.allocate(max(array.nbytes - 1, 0))
    made = CardTensor(chunk, array.dtype, array.shape)
    weakref.finalize(made, arena.free, chunk).atexit = False
    on_card(made)[...] = array
    return made


@bug_in(ArenaAllocator, "allocate", "transfer", "Relu")
def two_values_in_one_place(right: Any, self: ArenaAllocator, nbytes: int) -> Any:
    chunk = right(self, nbytes)
    chunk.offset = chunk.offset // 512 * 512
    return chunk


@bug_in(CardTransfer, "copy_into", "transfer", "Relu")
def copy_into_ignores_the_offset(right: Any, self: Any, value: Array, source: Any, destination: Any, chunk: Any) -> CardTensor:
    np.ndarray(value.shape, value.dtype, chunk.region._bytes)[...] = value
    return CardTensor(chunk, value.dtype, value.shape)


@bug_in(memory, "store", "transfer", "Relu")
def copy_ignores_strides(right: Any, array: Array, arena: ArenaAllocator, given: Chunk | None = None) -> Any:
    return right(array.ravel("K").reshape(array.shape), arena, given)


@bug_in(CardTransfer, "copy", "transfer", "Relu")
def what_comes_back_is_the_cards_own_memory(right: Any, self: Any, value: Any, source: Any, destination: Any) -> Any:
    return on_card(value) if isinstance(value, CardTensor) else right(self, value, source, destination)


@bug_in(CardTransfer, "copy", "transfer", "Relu")
def types_lost_on_the_way(right: Any, self: Any, value: Any, source: Any, destination: Any) -> Any:
    made = right(self, value, source, destination)
    return np.atleast_1d(made) if isinstance(made, np.ndarray) else made


@call_bug("handles", "Flatten", "Reshape")
def results_in_the_memory_of_their_input(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    made = right(self, inputs, chunks, state)
    return [CardTensor(inputs[0].memory, y.dtype, y.shape) if y.nbytes == inputs[0].nbytes else y for y in made]


@call_bug("handles", "Shape", "Relu")
def sizes_in_one_array_for_all_runs(right: Call, self: Any, inputs: Any, chunks: Chunks, state: CardStream) -> Any:
    kept, made = self.__dict__.setdefault("sizes", {}), right(self, inputs, chunks, state)
    return [kept.setdefault(k, y) if isinstance(y, np.ndarray) else y for k, y in enumerate(made)]


@bug("handles", "Gather")
def indices_counted_from_the_front_where_they_are(patch: pytest.MonkeyPatch) -> Any:
    right = CardExecutable._submit_program

    def counted(self: Any, inputs: Cards, *given: Any) -> Cards:
        known = dict(zip(self.program.inputs, inputs, strict=True))
        for one in self.program.instructions:
            if one.kernel == "Gather" and known.keys() >= set(one.operands):
                x, at = (known[k] for k in one.operands)
                at[at < 0] += x.shape[one.settings["axis"]]
        return right(self, inputs, *given)

    patch.setattr(CardExecutable, "_submit_program", counted)
    return type("Trusting", (AcceleratorExecutionProvider,), {"writes_no_input": True})


@bug_in(AcceleratorExecutionProvider, "host_values", "handles", "Shape", "Relu")
def host_values_until_it_is_asked_again(right: Any, self: Any, partition: Any) -> Any:
    asked = self.__dict__.setdefault("asked", set())
    known = partition.nodes in asked
    asked.add(partition.nodes)
    return [] if known else right(self, partition)


@call_bug("handles", "Relu")
def an_input_returned(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    on_card(inputs[0])[...] = on_card(right(self, inputs, chunks, state)[0]).reshape(inputs[0].shape)
    return [inputs[0]]


@bug_in(CardExecutable, "call_donating", "donations", "Add", "Relu")
def a_donated_input_that_goes_before_its_result(
    right: Call, self: Any, inputs: Cards, donated: frozenset[int], state: CardStream
) -> Cards:
    made: Cards = [*right(self, inputs, donated, state)]
    return [CardTensor(y.memory, y.dtype, y.shape) if any(y is x for x in inputs) else y for y in made]


@bug_in(CardExecutable, "call_donating", "donations", "Add")
def inputs_overwritten_that_are_not_donated(
    right: Call, self: Any, inputs: Cards, donated: frozenset[int], state: CardStream
) -> Cards:
    return right(self, inputs, frozenset(range(len(inputs))), state)


@bug_in(CardExecutable, "_store_result", "donations", "Add", "Mul", "Relu")
def donated_inputs_overwritten_before_their_last_reader(
    right: Any, self: Any, one: Any, y: Array, donated: frozenset[int], values: Mapping[int, CardTensor], chunk: Chunk | None
) -> Any:
    place = next((values[k] for k in one.operands if k in donated and values[k].shape == y.shape), None)
    if place is None or one.kernel not in program.ELEMENTWISE:
        return right(self, one, y, donated, values, chunk)
    memory.view(place)[...] = y
    return place


@bug_in(CardExecutable, "call_donating", "donations", "Add", "Relu")
def aliases_that_are_not_kept(right: Call, self: Any, inputs: Cards, donated: frozenset[int], state: CardStream) -> Any:
    return self(inputs, state)


@bug_in(CardExecutable, "record_steps", "replay", "Add", "Relu")
def a_recording_of_contents(right: Any, self: Any, *given: Any) -> Any:
    steps, tensors = right(self, *given)
    return [(one, [None if x is None else x.copy() for x in operands], y) for one, operands, y in steps], tensors


@bug_in(CardExecutable, "record_steps", "replay", "Relu")
def a_recording_that_writes_elsewhere(right: Any, self: Any, *given: Any) -> Any:
    steps, tensors = right(self, *given)
    return [(one, operands, y.copy()) for one, operands, y in steps], tensors


@bug_in(CardExecutable, "record_steps", "replay", "Add", "Mul", "Relu")
def intermediate_results_that_a_recording_does_not_keep(right: Any, self: Any, *given: Any) -> Any:
    return right(self, *given)[0], []


@bug_in(CardExecutable, "into_memory", "handles", "Relu", "Mul", "Add")
def results_in_each_others_memory(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    return right(self, inputs, chunks[::-1], state)


@bug_in(program, "store", "handles", "Relu")
def results_are_others_in_memory_that_is_given(
    right: Any, array: Array, arena: ArenaAllocator, given: Chunk | None = None
) -> Any:
    return right(array if given is None else array + 1, arena, given)


@call_bug("caches", "MatMul", "Relu")
def a_cache_by_shape_without_limit(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    self.__dict__.setdefault("cache", {}).setdefault(tuple(x.shape for x in inputs), bytearray(1000))
    return right(self, inputs, chunks, state)


@call_bug("caches", "MatMul", "Relu")
def a_workspace_on_the_card_for_each_shape(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    key, known = tuple(x.shape for x in inputs), self.__dict__.setdefault("cache", {})
    if key not in known:
        known[key] = store(np.zeros(64, np.float32), self._arena)
    return right(self, inputs, chunks, state)


@call_bug("instances", "Relu")
def values_of_another_instance_are_invalid(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    if any(x.memory._owner is not self._arena for x in inputs):
        raise RuntimeError("the buffer belongs to another device")
    return right(self, inputs, chunks, state)


@bug("forks", "Relu")
def a_driver_that_waits_in_a_forked_child(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(importlib.import_module("ort_lite.testing.checks.forks"), "PATIENCE", 1.0)
    right, process = CardTransfer.copy_into, os.getpid()

    def waiting(self: Any, *given: Any) -> CardTensor:
        while os.getpid() != process:
            time.sleep(1)
        return right(self, *given)

    patch.setattr(CardTransfer, "copy_into", waiting)


@call_bug("forks", "Relu")
def memory_that_a_forked_child_does_not_have(right: Call, self: Any, inputs: Cards, chunks: Chunks, state: CardStream) -> Cards:
    if self.__dict__.setdefault("process", os.getpid()) != os.getpid():
        inputs = [store(np.zeros(x.shape, x.dtype), self._arena) for x in inputs]
    return right(self, inputs, chunks, state)


@bug("release", "Relu")
def programs_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    right, kept = CardExecutable.__init__, []

    def remembered(self: Any, *given: Any) -> None:
        right(self, *given)
        kept.append(self)

    patch.setattr(CardExecutable, "__init__", remembered)


@bug("release", "Relu")
def profile_events_kept_without_anybody_asking(patch: pytest.MonkeyPatch) -> None:
    right, kept = CardExecutable._submit_program, []

    def noted(self: Any, *given: Any) -> Cards:
        kept.append(bytearray(500))
        return right(self, *given)

    patch.setattr(CardExecutable, "_submit_program", noted)


# Work in flight


@bug("events", "Relu", "Add")
def inputs_copied_when_the_card_gets_to_them(patch: pytest.MonkeyPatch) -> None:
    right = CardTransfer.copy_into

    def late(self: CardTransfer, value: Array, source: Device, destination: Device, chunk: Chunk) -> CardTensor:
        made = right(self, value, source, destination, chunk)
        made.work = self._queue.submit(lambda: np.copyto(memory.view(made), value))
        return made

    patch.setattr(CardTransfer, "copy_into", late)
    patch.setattr(CardQueue, "launch", lambda self: time.sleep(0.002))


@bug("events", "Conv", "Relu")
def results_of_all_calls_in_one_chunk(patch: pytest.MonkeyPatch) -> None:
    right, last = CardExecutable.execute, dict[Any, CardTensor]()

    def crowded(self: Any, inputs: Cards, results: Cards, *given: Any) -> None:
        right(self, inputs, results, *given)
        for k, y in enumerate(results):
            buffer = last.setdefault((id(self), k, y.shape), y)
            memory.view(buffer)[...] = memory.view(y)
            y.become(buffer)

    patch.setattr(CardExecutable, "execute", crowded)


@bug("events", "Relu")
def notifications_for_the_thread_that_called_alone(patch: pytest.MonkeyPatch) -> None:
    right = CardWork.wait_on_host
    main = threading.get_ident()

    def guarded(self: CardWork) -> None:
        if threading.get_ident() != main and threading.current_thread().name != "card":
            raise RuntimeError("no context is current on this thread")
        right(self)

    patch.setattr(CardWork, "wait_on_host", guarded)


@bug("events", "Relu")
def completion_that_is_never_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CardWork, "is_done", lambda self: False)


# Saved programs


@bug_in(CardExecutable, "to_bytes", "saved", "Conv", "Gemm", "Relu")
def constants_not_saved(right: Any, self: Any) -> Any:
    return self.program._replace(constants={k: on_card(x) * 0 for k, x in self._constants.items()}).to_bytes()


@bug_in(CardProgram, "to_bytes", "saved", "Gemm", "Relu")
def attributes_saved_as_whole_numbers(right: Any, self: CardProgram) -> Any:
    whole = [{k: int(v) if isinstance(v, float) else v for k, v in row.settings.items()} for row in self.instructions]
    rows = [row._replace(settings=s) for row, s in zip(self.instructions, whole, strict=True)]
    return right(self._replace(instructions=rows))


@bug("saved", "Relu")
def versions_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AcceleratorExecutionProvider, "check_compatibility", lambda self, saved: None)


@bug_in(AcceleratorExecutionProvider, "check_compatibility", "saved", "Relu")
def versions_compared_by_their_first_word(right: Any, self: Any, saved: str) -> str | None:
    return None if saved.startswith("npu") else "of another"


@bug("saved", "Relu")
def programs_cut_short_are_taken(patch: pytest.MonkeyPatch) -> None:
    right: Any = vars(CardProgram)["from_bytes"].__func__

    def lenient(cls: Any, data: bytes) -> CardProgram:
        try:
            made: CardProgram = right(cls, data)
            return made
        except Exception:  # noqa: BLE001  # as vendors do
            return CardProgram([], [], [], {})

    patch.setattr(CardProgram, "from_bytes", classmethod(lenient))


@bug("saved", "Relu")
def saving_needs_the_session(patch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()

    def numbered(self: Any, compiled: Any) -> bytes:
        alive[str(id(compiled)).encode()] = compiled
        return str(id(compiled)).encode()

    def found(self: Any, partition: Any, data: bytes) -> Any:
        return lambda inputs, state=None: alive[data](inputs, alive[data].create_state())

    patch.setattr(AcceleratorExecutionProvider, "serialize", numbered)
    patch.setattr(AcceleratorExecutionProvider, "deserialize", found)


# Memories


@bug("memories", "Relu")
def moves_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CardTransfer, "move", lambda self, source, destination: None)


@bug_in(planned.PlannedExecutable, "_move", "memories", "Relu")
def moves_after_the_operator(right: Any, self: Any, places: Any, step: int) -> None:
    right(self, places, step - 1)


@bug_in(CardTransfer, "move", "memories", "Relu")
def moves_the_other_way(right: Any, self: Any, source: Any, destination: Any) -> None:
    right(self, destination, source)


@bug("memories", "Relu")
def only_homes_are_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planned._Places, "of", lambda self, name, step: self.at(name))


@bug("memories", "Relu")
def slow_memory_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AcceleratorExecutionProvider, "memories", lambda card: parse_memories("slow=*@1G, fast=512K@20G"))


# Options and devices


class TakesAnything(AcceleratorExecutionProvider):
    def __init__(self, device_id: Any = 0, mem_limit: Any = 1 << 30, **unknown: Any) -> None:
        super().__init__(device_id, mem_limit)


@bug("settings", "Relu")
def unknown_options_taken(patch: pytest.MonkeyPatch) -> Any:
    return TakesAnything


@bug("settings", "Relu")
def wrong_types_become_the_default(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(provider, "count", lambda card, option, value: int(value) if str(value).isdecimal() else 0)


@bug("settings", "Relu")
def wrong_types_raise_whatever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(provider, "count", lambda card, option, value: int(value))


@bug("settings", "Relu")
def any_card_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(provider, "CARDS", 1 << 30)


@bug("settings", "Relu")
def errors_that_do_not_name_the_option(patch: pytest.MonkeyPatch) -> Any:
    class Terse(AcceleratorExecutionProvider):
        def __init__(self, **options: Any) -> None:
            try:
                super().__init__(**options)
            except Exception as error:
                raise InvalidArgument("wrong") from error

    return Terse


@bug("devices", "Relu")
def the_card_is_always_the_first(patch: pytest.MonkeyPatch) -> Any:
    class First(AcceleratorExecutionProvider):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.device = Device("npu", 0)

    return First


@bug("devices", "Relu")
def the_second_card_copies_from_the_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CardTransfer, "can_copy", lambda self, source, destination: Device("npu", 0) in (source, destination))


# What it claims


@bug("attributes", "Add")
def older_opsets_misread(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(operators.SINCE, "Add", 1)


@bug("attributes", "Softmax")
def the_softmax_of_older_opsets_misread(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(operators.SINCE, "Softmax", 1)


def claim_despite(patch: pytest.MonkeyPatch, code: str) -> None:
    """Claim nodes although there is a reason of this code against them."""
    right = operators.misfit
    patch.setattr(provider, "misfit", lambda node: wrong if (wrong := right(node)) and wrong.code != code else None)


CLAIMED: Mapping[str, tuple[str, str]] = {
    "any_type_claimed": ("Add", "type"),
    "auto_pad_claimed_and_ignored": ("Conv", "attribute"),
    "ceil_mode_claimed_and_ignored": ("MaxPool", "attribute"),
    "weights_that_are_fed_claimed": ("Conv", "constant"),
}
"""Bug -> operator, and the code of the reasons that its claims ignore."""

BUGS |= {bug: Bug("attributes", (operator,), partial(claim_despite, code=code)) for bug, (operator, code) in CLAIMED.items()}


class Edited(AcceleratorExecutionProvider):
    def answers(self, graph: GraphView) -> Iterator[Capability | Rejection]:
        return super().get_capability(graph)


@bug("capability", "Relu")
def declined_without_a_reason(patch: pytest.MonkeyPatch) -> Any:
    class Silent(Edited):
        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            return (a.replace(detail="") if isinstance(a, Rejection) else a for a in self.answers(graph))

    return Silent


@bug("capability", "Relu")
def says_nothing_of_what_it_declines(patch: pytest.MonkeyPatch) -> Any:
    class Shy(Edited):
        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            return (a for a in self.answers(graph) if isinstance(a, Capability))

    return Shy


@bug("capability", "Relu")
def claims_less_each_time(patch: pytest.MonkeyPatch) -> Any:
    class Tired(Edited):
        asked = 0

        def get_capability(self, graph: GraphView) -> Iterator[Capability | Rejection]:
            self.asked += 1
            for answer in self.answers(graph):
                tired = self.asked % 2 == 0 and isinstance(answer, Capability)
                yield Rejection(answer.nodes[0], "memory", "full") if tired and isinstance(answer, Capability) else answer

    return Tired


# Runs that end early


@bug_in(CardExecutable, "execute", "interrupted", "MatMul", "Add")
def locked_after_an_error(right: Any, self: Any, *given: Any) -> None:
    if self.__dict__.get("busy"):
        raise RuntimeError("busy")
    self.busy = True
    right(self, *given)
    self.busy = False


@bug_in(CardExecutable, "execute", "interrupted", "MatMul", "Add")
def memory_lost_with_each_error(right: Any, self: Any, *given: Any) -> None:
    workspace = self._arena.allocate(64)
    right(self, *given)
    self._arena.free(workspace)


@bug("interrupted", "Relu")
def termination_raises_an_error_of_its_own(patch: pytest.MonkeyPatch) -> Any:
    class Abrupt(AcceleratorExecutionProvider):
        def on_run_start(self, options: RunOptions | None) -> None:
            if options is not None and options.terminate:
                raise KeyError("stopped")

    return Abrupt
