"""Token searches of com.microsoft: GreedySearch, BeamSearch, WhisperBeamSearch and Sampling, with bodies of a few nodes."""

from typing import Any

import numpy as np

from ort_lite.graph.types import TensorType
from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draft_proto import parse_graph
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import FLAGS, MICROSOFT

_HEADS, _SIZE = 2, 3
"""Sizes of the past. The decoder remembers nothing: an empty past comes back as it is."""
_PLACES = 16
"""More than a sequence has tokens."""
TOKENS = TensorType("int32", None)


def _decoder(draw: Draw, vocabulary: int) -> Any:
    """Return a GraphProto whose inputs and outputs have the names that searches expect. Logits depend on a token and its position.

    If they depended on the token alone, sequences with the same token pairs would be equally likely.
    """
    tables = {
        "by_token": between(-2, 2)(draw.rng, (vocabulary, vocabulary), "float32"),
        "by_place": between(-1, 1)(draw.rng, (_PLACES, vocabulary), "float32"),
    }
    past = f"float[2, B, {_HEADS}, P, {_SIZE}]"
    return parse_graph(
        f"""
        decoder (int32[B, S] input_ids, int32[B, S] position_ids, int32[B, T] attention_mask, {past} past_0)
            => (float[B, S, {vocabulary}] logits, {past} present_0)
        {{
            of_tokens = Gather(by_token, input_ids)
            of_places = Gather(by_place, position_ids)
            logits = Add(of_tokens, of_places)
            present_0 = Identity(past_0)
        }}
        """,
        tables,
    )


_FEATURES = 3
"""Features of a step of an encoder's input. What attention remembers of it are the features themselves, of one head."""


_OWN = f"float[B, 1, S, {_SIZE}] present_key_self_0, float[B, 1, S, {_SIZE}] present_value_self_0"
_PAST, _CROSS = f"float[B, 1, P, {_SIZE}]", f"float[B, 1, L, {_FEATURES}]"
_MEMORY = """
    remembered = Gather(memories, tokens)
    memory = Reshape(remembered, one_head)
"""
_LOGITS = """
    sizes = Shape(present_key_self_0)
    place = Gather(sizes, axis)
    of_place = Gather(by_place, place)
    of_tokens = Gather(by_token, tokens)
    step = Gather<axis = 2>(steps, first)
    of_step = MatMul(step, by_step)
    of_both = Add(of_place, of_step)
    logits = Add(of_tokens, of_both)
"""


def _whisper_encoder(vocabulary: int) -> str:
    """Return a body that gives features as what attention remembers of them, and has the decoder's first turn in it."""
    return f"""
        encoder (float[B, {_FEATURES}, L] encoder_input_ids, int32[B, S] decoder_input_ids)
            => (float[B, S, {vocabulary}] logits, float[B, L, {_FEATURES}] encoder_hidden_states, {_OWN},
                {_CROSS} present_key_cross_0, {_CROSS} present_value_cross_0)
        {{
            encoder_hidden_states = Transpose<perm = [0, 2, 1]>(encoder_input_ids)
            steps = Reshape(encoder_hidden_states, one_head_of_steps)
            present_key_cross_0 = Identity(steps)
            present_value_cross_0 = Identity(steps)
            tokens = Identity(decoder_input_ids)
            {_MEMORY}
            present_key_self_0 = Identity(memory)
            present_value_self_0 = Identity(memory)
            {_LOGITS}
        }}
    """


def _whisper_decoder(vocabulary: int) -> str:
    return f"""
        decoder (int32[B, 1] input_ids, {_PAST} past_key_self_0, {_PAST} past_value_self_0,
                {_CROSS} past_key_cross_0, {_CROSS} past_value_cross_0)
            => (float[B, 1, {vocabulary}] logits, {_OWN})
        {{
            tokens = Identity(input_ids)
            steps = Identity(past_value_cross_0)
            {_MEMORY}
            present_key_self_0 = Concat<axis = 2>(past_key_self_0, memory)
            present_value_self_0 = Concat<axis = 2>(past_value_self_0, memory)
            {_LOGITS}
        }}
    """


def _whisper_bodies(draw: Draw, vocabulary: int) -> dict[str, Any]:
    """Return an encoder and a decoder whose logits depend on a token, its position and the first step of the features."""
    tables = {
        "by_token": between(-2, 2)(draw.rng, (vocabulary, vocabulary), "float32"),
        "by_place": between(-1, 1)(draw.rng, (_PLACES, vocabulary), "float32"),
        "by_step": between(-1, 1)(draw.rng, (_FEATURES, vocabulary), "float32"),
        "memories": between(-1, 1)(draw.rng, (vocabulary, _SIZE), "float32"),
        "one_head": np.array([0, 1, -1, _SIZE]),
        "one_head_of_steps": np.array([0, 1, -1, _FEATURES]),
        "axis": np.array(2),
        "first": np.array(0),
    }
    texts = {"encoder": _whisper_encoder(vocabulary), "decoder": _whisper_decoder(vocabulary)}
    return {name: parse_graph(text, tables) for name, text in texts.items()}


class _SearchOperands:
    """The sizes and operands that the searches share. Every sequence has a token that it may begin with.

    Most searches run to the end, because the rest of an early-ended result is padding here, and undefined in onnxruntime.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw, self.vocabulary = draw, draw.integer(6, 9)
        self.masked = draw.chance(0.4)
        """Some tokens are forbidden. Repetitions are not then: there has to be a token left."""
        self.batch, self.steps = draw.integer(1, 3), draw.integer(1, 3)
        self.longest = self.steps + draw.integer(1, 5)
        self.prompt = draw.tensor_of("int32", (self.batch, self.steps), between(0, self.vocabulary - 1))

    def number(self, value: float, dtype: str = "int32") -> str:
        return self.draw.scalar([value], dtype)

    def maybe(self, value: float, dtype: str = "int32") -> str:
        return self.number(value, dtype) if self.draw.chance(0.4) else ""

    def least(self) -> str:
        """Return the length before which no sequence ends."""
        return self.number(self.longest) if self.draw.chance(0.7) else self.maybe(self.draw.integer(0, self.longest))

    def penalty(self, dtype: str = "float32") -> str:
        return self.maybe(self.draw.choice((0.5, 1.0, 1.5)), dtype)

    def vocabulary_mask(self, *shape: int) -> str:
        if not self.masked or self.draw.chance(0.4):
            return ""
        mask = FLAGS(self.draw.rng, (*shape, self.vocabulary), "int32")
        mask[..., self.draw.integer(0, self.vocabulary - 1)] = 1
        return self.draw.array(mask)

    def attention_mask(self) -> str:
        return self.draw.tensor_of("int32", (self.batch, self.steps), FLAGS) if self.draw.chance(0.3) else ""

    def operands(self) -> list[str]:
        """Return the operands of GreedySearch, which are also the first ones of Sampling."""
        masks = self.vocabulary_mask(), self.vocabulary_mask(self.batch), self.attention_mask()
        return [self.prompt, self.number(self.longest), self.least(), self.penalty(), *masks]

    def attributes(self) -> dict[str, Any]:
        draw = self.draw
        bodies = {"decoder": _decoder(draw, self.vocabulary)}
        if draw.chance(0.2):
            bodies["init_decoder"] = _decoder(draw, self.vocabulary)
        return {
            "eos_token_id": draw.integer(0, self.vocabulary - 1),
            "pad_token_id": draw.integer(0, self.vocabulary - 1),
            "no_repeat_ngram_size": draw.maybe(0 if self.masked else draw.choice((0, 2, 3)), 0.5),
            "vocab_size": draw.maybe(self.vocabulary, 0.2),
            "model_type": draw.maybe(0, 0.2),
            **bodies,
        }


@recipe("GreedySearch", domain=MICROSOFT)
def greedy_search(draw: Draw) -> NodeProposal:
    """Draw a prompt, a decoder and the limits of a greedy search."""
    search = _SearchOperands(draw)
    return call(search.operands(), types=[TOKENS], **search.attributes())


@recipe("Sampling", domain=MICROSOFT)
def sampling(draw: Draw) -> NodeProposal:
    """Draw a search with a seed, so that runs are repeatable. Only the first present token is penalized in onnxruntime.

    With the default top_p, 0, rounding decides whether any token remains.
    """
    search = _SearchOperands(draw)
    present = draw.chance(0.3)
    operands = [
        *search.operands(),
        draw.tensor_of("int32", (search.batch, search.vocabulary), FLAGS) if present else "",
        search.number(draw.integer(0, 99)),
    ]
    return call(
        operands,
        types=[TOKENS],
        top_p=draw.choice((0.2, 0.5, 0.9)),
        temperature=draw.maybe(draw.choice((0.5, 1.0, 3.0))),
        min_tokens_to_keep=draw.maybe(draw.integer(0, 3), 0.3),
        presence_penalty=draw.maybe(1.5, 0.1 if present else 0.3),
        custom=draw.maybe(draw.integer(0, 1), 0.3),
        **search.attributes(),
    )


@recipe("BeamSearch", "WhisperBeamSearch", domain=MICROSOFT)
def beam_search(draw: Draw) -> NodeProposal:
    """Draw a prompt or features, bodies, and a number of beams that is at least the number of returned sequences."""
    search = _SearchOperands(draw)
    own, whisper = draw.op_type == "WhisperBeamSearch", draw.types["F"] != "int32"
    beams = draw.integer(1, 3)
    operands = [
        draw.tensor(0, (search.batch, _FEATURES, draw.integer(1, 4)), between(-1, 1)) if whisper else search.prompt,
        search.number(search.longest + whisper),
        search.least(),
        search.number(beams),
        search.number(draw.integer(1, beams)),
        search.number(draw.choice((-1.0, 0.0, 1.0, 2.0)), draw.types["T"]),
        search.penalty(draw.types["T"]),
        search.vocabulary_mask(),
        search.vocabulary_mask(search.batch),
        "" if whisper else search.attention_mask(),
        search.prompt if whisper else "",
    ]
    if own:
        operands += ["", "", "", search.maybe(draw.choice((0.5, 2.0)), draw.types["T"])]
    outputs = draw.integer(1, 3)
    attributes = search.attributes()
    if whisper:
        attributes.pop("init_decoder", None)
        attributes |= {"model_type": draw.maybe(2) if own else 2, **_whisper_bodies(draw, search.vocabulary)}
    early = draw.maybe(draw.integer(0, 1))
    scores = TensorType(draw.types["T"], None)
    return call(operands, outputs, types=[TOKENS, scores, scores][:outputs], early_stopping=early, **attributes)
