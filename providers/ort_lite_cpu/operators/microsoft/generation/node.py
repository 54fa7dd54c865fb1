"""A node that searches, from its bodies, attributes and inputs to a step of the program."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.operators.control_flow import Captured, captures_of
from ort_lite_cpu.operators.microsoft.generation.encoder_decoder import encoder_decoder
from ort_lite_cpu.operators.microsoft.generation.forms import Form, Run, width_of
from ort_lite_cpu.operators.microsoft.generation.gpt import gpt
from ort_lite_cpu.operators.microsoft.generation.settings import Settings, Timestamps, check_settings, optional, scalar

DECODER_ONLY, ENCODER_DECODER, WHISPER = range(3)
KINDS = ("decoder only", "encoder and decoder", "Whisper")
"""Names of the values of `model_type`."""
PAIRED = 1
"""The value of `logits_processor` with which timestamps come in pairs."""
Search = Callable[[Settings, Run, Sequence[Any]], list[Any]]
"""A function from settings, the model and the node's inputs to its outputs."""


def kind_of(op: NodeLowering) -> int:
    """Return the value of `model_type`."""
    return int(op.attr("model_type", WHISPER if op.node.op_type == "WhisperBeamSearch" else DECODER_ONLY))


def emit_search(op: NodeLowering, search: Search, places: Mapping[str, int], kinds: Sequence[int] = (DECODER_ONLY,)) -> None:
    """Emit a search. places: which input is what, `max_length` 1 and `min_length` 2 apart; kinds: values of `model_type`."""
    kind, graphs = kind_of(op), _graphs(op, kinds)
    wanted = "float32" if kind == WHISPER else "int32"
    if op.raw(0).dtype != wanted:
        raise op.reject(f"input_ids of {op.raw(0).dtype}; model_type {kind} takes {wanted}")
    vocabulary = _vocabulary(op, graphs[0])
    captures = captures_of(op, *graphs)
    bodies = [Captured(op, graph, captures) for graph in graphs]
    form: Form = gpt(op, graphs, bodies) if kind == DECODER_ONLY else encoder_decoder(op, graphs, bodies, kind == WHISPER)
    given = len(op.node.inputs)
    attributes, node = _attributes(op), op.node

    def step(*arrays: Any) -> list[Any]:
        inputs, prompt = arrays[:given], arrays[0]
        settings = _settings(node, vocabulary, attributes, inputs, places)
        check_settings(settings, len(prompt), _prompt_length(settings, kind, prompt))
        mask = optional(inputs, places["mask"])
        if mask is not None and kind != WHISPER and mask.shape != prompt.shape:
            raise settings.error(f"attention_mask has shape {mask.shape}; that of input_ids, {prompt.shape}, is expected")
        return search(settings, form(settings, prompt, mask, arrays[given:]), inputs)

    op.values.host(op.node, step, python=True, captures=captures)


def _prompt_length(settings: Settings, kind: int, prompt: Array) -> int:
    """Return the number of tokens that sequences begin with. Raises InvalidArgument for none."""
    name, tokens = ("input_ids", prompt) if kind != WHISPER else ("decoder_input_ids", settings.starts)
    if tokens is None:
        return 1
    if tokens.shape[1] == 0 or len(tokens) != len(prompt):
        raise settings.error(
            f"{name} have shape {tokens.shape}; a prompt of one token or more is expected for each of the batch"
        )
    return 1 if kind == ENCODER_DECODER else int(tokens.shape[1])


def _graphs(op: NodeLowering, kinds: Sequence[int]) -> list[Graph]:
    """Return `decoder`, then the graph that begins: itself, init_decoder or encoder."""
    kind, decoder = kind_of(op), op.attr("decoder")
    if kind not in kinds:
        raise op.reject(f"model_type {kind}; {op.node.op_type} has {' or '.join(f'{k} ({KINDS[k]})' for k in kinds)}")
    first, other = ("init_decoder", "encoder") if kind == DECODER_ONLY else ("encoder", "init_decoder")
    if op.attr(other) is not None:
        raise InvalidGraph(f"{op.node}: attribute {other!r} is not for model_type {kind}")
    if kind != DECODER_ONLY and op.attr("encoder") is None:
        raise InvalidGraph(f"{op.node}: attribute 'encoder' is missing; model_type {kind} needs it")
    return [decoder] if op.attr(first) is None else [decoder, op.attr(first)]


def _vocabulary(op: NodeLowering, decoder: Graph) -> int:
    """Return how many of the logits count: `vocab_size`; a model may have more, which make its rows longer."""
    width, wanted = width_of(op.node, decoder), op.attr("vocab_size", -1)
    if wanted > width:
        raise InvalidGraph(f"{op.node}: vocab_size is {wanted}; its body {decoder.name!r} gives {width} logits")
    return width if wanted < 1 else int(wanted)


def _attributes(op: NodeLowering) -> dict[str, Any]:
    """Return the settings that no input changes."""
    return {
        "eos": int(op.attr("eos_token_id")),
        "pad": int(op.attr("pad_token_id")),
        "start": int(op.attr("decoder_start_token_id", -1)),
        "ngram": int(op.attr("no_repeat_ngram_size", 0)),
        "early_stopping": op.attr("early_stopping", 0) == 1,
        "presence_penalty": float(op.attr("presence_penalty", 0.0)),
        "silence": int(op.attr("no_speech_token_id", -1)),
    }


def timestamps_of(node: Node) -> Timestamps:
    """Return the tokens that pair timestamps."""
    names = ("beginning_timestamp", "translate", "transcribe", "start_of_lm", "no_timestamps")
    return Timestamps(*(int(node.attr(f"{name}_token_id", -1)) for name in names))


def _settings(
    node: Node, vocabulary: int, attributes: Mapping[str, Any], inputs: Sequence[Array | None], places: Mapping[str, int]
) -> Settings:
    def one(name: str, index: int, default: float) -> Any:
        return scalar(node, name, optional(inputs, index), default)

    def mask(name: str) -> Array | None:
        return optional(inputs, places[name]) if name in places else None

    beams, returned, length, temperature = (
        places.get(name, len(inputs)) for name in ("beams", "returned", "length", "temperature")
    )
    return Settings(
        node=node,
        vocabulary=vocabulary,
        max_length=one("max_length", 1, 0),
        min_length=one("min_length", 2, 0),
        repetition_penalty=one("repetition_penalty", places["repetition"], 1.0),
        vocab_mask=mask("vocab"),
        prefix_vocab_mask=mask("prefix"),
        presence_mask=mask("presence"),
        beams=one("num_beams", beams, 1),
        returned=one("num_return_sequences", returned, 1),
        length_penalty=one("length_penalty", length, 1.0),
        temperature=one("temperature", temperature, float(node.attr("temperature", 1.0))),
        starts=mask("starts"),
        timestamps=timestamps_of(node) if one("logits_processor", places.get("processor", len(inputs)), 0) == PAIRED else None,
        **attributes,
    )
