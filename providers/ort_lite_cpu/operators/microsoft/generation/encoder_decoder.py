"""Encoders and decoders, such as T5 and Whisper: `encoder` sees the input once, `decoder` then makes a sequence of its own.

There are two kinds. An encoder with decoder_input_ids has the decoder's first turn in it: it gives logits, the hidden states, and what
attention to itself and to the encoder remembers. One without gives only what attention to the encoder remembers. That of Whisper
has decoder_input_ids, reads features in place of tokens, and no mask.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node, TensorType
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.control_flow import Captured
from ort_lite_cpu.operators.microsoft.generation.forms import SHARED, Body, Cache, Form, Run, bind_bodies, cache_of, check_names
from ort_lite_cpu.operators.microsoft.generation.settings import Settings

PROMPT, MASK, HIDDEN = "encoder_input_ids", "encoder_attention_mask", "encoder_hidden_states"


class _Layout(NamedTuple):
    """The form of the two bodies. layers: of the decoder."""

    fixed: tuple[str, ...]
    """The decoder's inputs between its tokens and its past: of `PROMPT`, `MASK` and `HIDDEN` those that it reads, in this order."""
    layers: int
    whole: bool
    """The decoder reads whole sequences, not their last token."""
    joined: bool
    """The encoder has the decoder's first turn in it."""
    features: bool
    """The encoder reads features, and neither body reads a mask."""
    cache: Cache


def encoder_decoder(op: NodeLowering, graphs: Sequence[Graph], bodies: Sequence[Captured], features: bool) -> Form:
    """Build the search of [decoder, encoder]. features: those of Whisper."""
    layout = _layout(op, graphs[0], graphs[1], features)
    decoder, encoder = bodies

    def form(settings: Settings, prompt: Array, mask: Array | None, captured: Sequence[Any]) -> Run:
        if settings.start < 0 and settings.starts is None:
            raise settings.error("decoder_start_token_id is missing; a search with an encoder begins with that token")
        return _EncoderDecoderRun(settings, bind_bodies((encoder, decoder), captured), layout, prompt, mask)

    return form


def _layout(op: NodeLowering, decoder: Graph, encoder: Graph, features: bool) -> _Layout:
    """Raise InvalidGraph for bodies that are no such model, NotImplemented for `SHARED`."""
    node, joined = op.node, features or len(encoder.inputs) == 3
    masks = [] if features else [MASK]
    if joined:
        check_names(
            node,
            encoder,
            [PROMPT, *masks, "decoder_input_ids"],
            ["logits", HIDDEN, "present_key_self_0", "present_value_self_0"],
        )
    else:
        check_names(node, encoder, [PROMPT, *masks], ["present_key_cross_0", "present_value_cross_0"])
    fixed = _fixed_inputs(node, decoder, masks)
    first_past = 1 + len(fixed)
    pasts, presents, layers = len(decoder.inputs) - first_past, len(decoder.outputs) - 1, (len(decoder.outputs) - 1) // 2
    if layers and pasts in (4 * layers + 1, 4 * layers + 3):
        raise op.reject(SHARED)
    given = len(encoder.outputs) - 2 if joined else len(encoder.outputs) + 2 * layers
    if presents % 2 or not layers or pasts != 4 * layers or given != pasts or (HIDDEN in fixed and not joined):
        raise InvalidGraph(
            f"{node}: its body {decoder.name!r} has {pasts} inputs of its past and {presents} present outputs, its body "
            f"{encoder.name!r} {len(encoder.inputs)} inputs and {len(encoder.outputs)} outputs; four, two and, beside logits and "
            "hidden states, four (two where it has no decoder_input_ids) a layer are expected"
        )
    type_ = decoder.inputs[0].type
    shape = type_.shape if isinstance(type_, TensorType) else None
    whole = shape is None or len(shape) != 2 or shape[1] != 1
    return _Layout(fixed, layers, whole, joined, features, cache_of(node, decoder, first_past, 4))


def _fixed_inputs(node: Node, decoder: Graph, masks: Sequence[str]) -> tuple[str, ...]:
    names = [value.name for value in decoder.inputs]
    fixed = [PROMPT, *masks] if masks and names[1:2] == [PROMPT] else [*masks]
    check_names(node, decoder, ["input_ids", *fixed], ["logits"])
    return (*fixed, HIDDEN) if names[1 + len(fixed) : 2 + len(fixed)] == [HIDDEN] else tuple(fixed)


class _EncoderDecoderRun:
    """One search. `_fixed` goes into every call of the decoder, between the tokens and what attention to itself remembers."""

    def __init__(self, settings: Settings, bodies: Sequence[Body], layout: _Layout, prompt: Array, mask: Array | None) -> None:
        self._settings, (self._encoder, self._decoder), self._layout = settings, bodies, layout
        self._prompt = prompt
        self._masks = [] if layout.features else [_mask_of(prompt, settings.pad) if mask is None else mask]
        self._fixed: list[Array] = []
        self._past: list[Array] = []
        self._cross: list[Array] = []

    def begin(self) -> tuple[Array, Array]:
        """Begin in onnxruntime's order: rows of the batch are repeated behind the encoder, which sees each once."""
        layout, starts = self._layout, self._settings.starts
        if starts is None:
            starts = np.full((len(self._prompt), 1), self._settings.start, np.int32)
        given = [self._prompt, *self._masks]
        found = self._encoder([*given, starts] if layout.joined else given)
        known, sequences = dict(zip((PROMPT, MASK), given, strict=False)), self._repeat(starts)
        if layout.joined:
            logits, known[HIDDEN], *found = found
        self._fixed = [self._repeat(known[name]) for name in layout.fixed]
        caches = [self._repeat(each) for each in found]
        if layout.joined:
            self._past, self._cross = caches[: 2 * layout.layers], caches[2 * layout.layers :]
            return sequences, self._repeat(logits)
        self._cross = caches
        empty = np.zeros((len(sequences), layout.cache.heads, 0, layout.cache.size), layout.cache.dtype)
        self._past = [empty] * (2 * layout.layers)
        return sequences, self._call(sequences)

    def go_on(self, sequences: Array, rows: Array) -> Array:
        if self._settings.beams > 1:
            self._past = [self._settings.compute(each.size, np.take, each, rows, 0) for each in self._past]
        return self._call(sequences)

    def _repeat(self, x: Array) -> Array:
        beams = self._settings.beams
        return np.asarray(self._settings.compute(beams * x.size, np.repeat, x, beams, 0))

    def _call(self, sequences: Array) -> Array:
        tokens = np.ascontiguousarray(sequences if self._layout.whole else sequences[:, -1:])
        logits, *self._past = self._decoder([tokens, *self._fixed, *self._past, *self._cross])
        return np.asarray(logits)


def _mask_of(prompt: Array, pad: int) -> Array:
    """Return (B, S): 0 for pads in front. One behind may be the end of the text: models use the same token for both."""
    return np.asarray((prompt != pad).cumsum(axis=1) > 0, np.int32)
