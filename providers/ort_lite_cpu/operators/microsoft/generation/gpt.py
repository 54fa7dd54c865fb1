"""Decoders alone, such as GPT-2: `decoder` sees the prompt, then one token a row and what it remembers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.control_flow import Captured
from ort_lite_cpu.operators.microsoft.generation.forms import SHARED, Body, Cache, Form, Run, bind_bodies, cache_of, check_names
from ort_lite_cpu.operators.microsoft.generation.settings import Settings

FIRST_PAST = 3


def gpt(op: NodeLowering, graphs: Sequence[Graph], bodies: Sequence[Captured]) -> Form:
    """Build the search of [decoder] or [decoder, init_decoder], which is for the first call."""
    kinds = {(len(graph.inputs) - FIRST_PAST, _check_body(op, graph)) for graph in graphs}
    if len(kinds) > 1:
        raise InvalidGraph(
            f"{op.node}: decoder and init_decoder differ in what they remember: layers, heads, head size or type"
        )
    [(layers, cache)] = kinds
    decoder, first = bodies[0], bodies[-1]

    def form(settings: Settings, prompt: Array, mask: Array | None, captured: Sequence[Any]) -> Run:
        return _GPTRun(settings, bind_bodies((first, decoder), captured), cache, layers, prompt, mask)

    return form


def _check_body(op: NodeLowering, graph: Graph) -> Cache:
    """Return the form of past_0. Raises InvalidGraph for a body that is no decoder, NotImplemented for `SHARED`."""
    check_names(op.node, graph, ["input_ids", "position_ids", "attention_mask", "past_0"], ["logits", "present_0"])
    more = len(graph.inputs) - len(graph.outputs) - 2
    if more in (1, 2, 3):
        raise op.reject(SHARED)
    if more:
        raise InvalidGraph(
            f"{op.node}: its body {graph.name!r} has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs; "
            "as many past_... as present_... are expected"
        )
    return cache_of(op.node, graph, FIRST_PAST, 5)


class _GPTRun:
    """One search. Positions count what is not pad, whatever attention_mask says, as in onnxruntime; those of pads are 0."""

    def __init__(
        self, settings: Settings, bodies: Sequence[Body], cache: Cache, layers: int, prompt: Array, mask: Array | None
    ) -> None:
        """Use these bodies for the first call and for others. mask: None: what is not pad."""
        words = (prompt != settings.pad).astype(np.int32)
        counted = words.cumsum(axis=1, dtype=np.int32)
        every = prompt, np.where(words, counted - 1, 0).astype(np.int32), words if mask is None else mask, counted[:, -1:]
        self._settings, self._bodies, self._cache, self._layers = settings, bodies, cache, layers
        self._prompt, self._places, self._mask, self._place = (np.repeat(x, settings.beams, axis=0) for x in every)
        self._past: list[Array] = []

    def begin(self) -> tuple[Array, Array]:
        empty = np.zeros((2, len(self._prompt), self._cache.heads, 0, self._cache.size), self._cache.dtype)
        logits, *self._past = self._bodies[0]([self._prompt, self._places, self._mask, *[empty] * self._layers])
        return self._prompt, logits

    def go_on(self, sequences: Array, rows: Array) -> Array:
        ones = np.ones((len(sequences), 1), np.int32)
        self._mask = np.concatenate([self._mask, ones], axis=1)
        past = self._past
        if self._settings.beams > 1:
            past = [self._settings.compute(each.size, np.take, each, rows, 1) for each in past]
        tokens = np.ascontiguousarray(sequences[:, -1:])
        logits, *self._past = self._bodies[1]([tokens, self._place, self._mask, *past])
        self._place = self._place + ones
        return np.asarray(logits)
