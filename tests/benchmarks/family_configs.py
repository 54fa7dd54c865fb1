"""The families of onnxruntime-genai's builder: the smallest configuration of each, and what the builder is asked for."""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.benchmarks.zoo.export import enliven, start

Config = Mapping[str, Any]
SMALL: Config = {
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LONG = {
    "rope_type": "longrope",
    "type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 16,
    "long_factor": [2.0] * 16,
}
MSCALES = {"short_mscale": 1.0, "long_mscale": 1.0}
LONG_PHI = {"original_max_position_embeddings": 10, "max_position_embeddings": 128, "rope_parameters": LONG, "head_dim": None}
MROPE = {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0}
LOCAL = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
GEMMA = {**LOCAL, "query_pre_attn_scalar": 32, "tie_word_embeddings": True}
GEMMA4 = {**LOCAL, "attention_k_eq_v": True, "global_head_dim": 64, "num_global_key_value_heads": 1}
EXPERTS4 = {
    "enable_moe_block": True,
    "hidden_size_per_layer_input": 0,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 64,
}
SEEN4 = {
    "allow_global_per_layer_attribute_access": True,
    "head_dim": 32,
    "num_key_value_heads": 2,
    "global_head_dim": 64,
    "num_global_key_value_heads": 1,
}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [4, 2, 2],
    },
}
GRANITE = {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "logits_scaling": 2.0}
HYBRID = {"layer_types": ["attention"] * 2, "shared_intermediate_size": 256, "num_local_experts": 0, "num_experts_per_tok": 0}
VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": 128,
    "fullatt_block_indexes": [0],
}
CONVOLUTIONS = {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False, "conv_L_cache": 3}
WHISPER = {
    "vocab_size": 320,
    "num_mel_bins": 8,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 256,
    "encoder_ffn_dim": 256,
    "d_model": 128,
    "max_source_positions": 1500,
    "max_target_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
}


@dataclass(frozen=True)
class Family:
    """A class of transformers, its configuration beyond SMALL, and what the builder sees in place of the saved configuration."""

    model: str
    config: Config = field(default_factory=dict)
    seen: Config = field(default_factory=dict)


def named(architecture: str) -> Config:
    """Return what makes the builder take a checkpoint for one of an architecture whose code is not in transformers."""
    return {"architectures": [architecture]}


CONFIGS: dict[str, Family] = {
    "chatglm": Family("GlmForCausalLM", {}, named("ChatGLMForConditionalGeneration")),
    "ernie4_5": Family("Ernie4_5ForCausalLM"),
    "gemma": Family("GemmaForCausalLM", {"tie_word_embeddings": True}),
    "gemma2": Family("Gemma2ForCausalLM", GEMMA),
    "gemma3": Family(
        "Gemma3ForCausalLM",
        GEMMA,
        {"rope_parameters": {"rope_type": "default"}, "rope_theta": 1e6, "rope_local_base_freq": 10000.0},
    ),
    "gemma4": Family("Gemma4UnifiedForConditionalGeneration", GEMMA4, SEEN4),
    "gemma4_moe": Family("Gemma4ForConditionalGeneration", {**GEMMA4, **EXPERTS4}, SEEN4),
    "gpt_oss": Family("GptOssForCausalLM", {**LOCAL, **EXPERTS, "intermediate_size": 64}),
    "granite": Family("GraniteForCausalLM", GRANITE),
    "granite_hybrid": Family("GraniteMoeHybridForCausalLM", {**GRANITE, **HYBRID, "position_embedding_type": "rope"}),
    "hunyuan": Family("HunYuanDenseV1ForCausalLM"),
    "internlm2": Family("LlamaForCausalLM", {}, named("InternLM2ForCausalLM")),
    "lfm2": Family("Lfm2ForCausalLM", CONVOLUTIONS),
    "lfm2_moe": Family("Lfm2MoeForCausalLM", {**CONVOLUTIONS, **EXPERTS, "num_dense_layers": 1}),
    "llama": Family("LlamaForCausalLM", {"tie_word_embeddings": True}),
    "mistral": Family("MistralForCausalLM", {"sliding_window": 4}),
    "mistral3": Family("Mistral3ForConditionalGeneration"),
    "nemotron": Family("NemotronForCausalLM", {"hidden_act": "relu2"}),
    "olmo": Family("OlmoForCausalLM"),
    "phi": Family("PhiForCausalLM", {"num_key_value_heads": 4}),
    "phi3": Family("Phi3ForCausalLM", {"original_max_position_embeddings": 128, "head_dim": None, "sliding_window": 8}),
    "phi3_long": Family("Phi3ForCausalLM", LONG_PHI),
    "phi3_moe": Family(
        "PhimoeForCausalLM",
        {**LONG_PHI, **EXPERTS, "rope_parameters": {**LONG, **MSCALES}},
        {**named("PhiMoEForCausalLM"), "original_max_position_embeddings": 10},
    ),
    "phi3_vision": Family("Phi3ForCausalLM", LONG_PHI, named("Phi3VForCausalLM")),
    "qwen2": Family("Qwen2ForCausalLM"),
    "qwen2_5_vl": Family("Qwen2_5_VLForConditionalGeneration", {"rope_parameters": MROPE}),
    "qwen3": Family("Qwen3ForCausalLM"),
    "qwen3_vl": Family("Qwen3VLForConditionalGeneration", {"rope_parameters": MROPE}),
    "qwen3_5": Family("Qwen3_5ForConditionalGeneration", LINEAR),
    "qwen3_5_moe": Family("Qwen3_5MoeForConditionalGeneration", {**LINEAR, **EXPERTS, "shared_expert_intermediate_size": 64}),
    "smollm3": Family("SmolLM3ForCausalLM", {"no_rope_layers": [1, 1]}),
    "videochat_flash": Family("Qwen2ForCausalLM", {}, named("VideoChatFlashQwenForCausalLM")),
    "whisper": Family("WhisperForConditionalGeneration"),
}
SCALES = "scales.json"
SCHEMES = ("int8_per_tensor", "int8_per_channel", "int4_per_tensor", "int4_per_channel")
OPTIONS: tuple[tuple[str, dict[str, str]], ...] = (
    ("fp16", {}),
    ("bf16", {}),
    ("int8", {}),
    ("int8", {"is_symmetric": "false"}),
    ("int4", {"shared_embeddings": "true"}),
    ("fp32", {"shared_embeddings": "true"}),
    ("int4", {"is_symmetric": "false"}),
    ("int4", {"block_size": "16"}),
    ("int4", {"block_size": "128"}),
    ("int4", {"algo_config": "rtn_last"}),
    ("int4", {"algo_config": "k_quant_mixed"}),
    ("int4", {"use_qdq": "true"}),
    ("int4", {"use_qdq": "true", "is_symmetric": "false"}),
    ("int4", {"accuracy_level": "1"}),
    ("int4", {"moe_quant_type": "int8"}),
    ("int4", {"op_types_to_quantize": "MatMul/Gather"}),
    ("fp32", {"prune_lm_head": "true"}),
    ("fp32", {"include_hidden_states": "true"}),
    ("fp32", {"fuse_qkv": "false"}),
    ("fp32", {"exclude_embeds": "true"}),
    ("fp32", {"exclude_lm_head": "true"}),
    *(("fp32", {"kv_cache_quant_scheme": scheme, "kv_cache_scale_file": SCALES}) for scheme in SCHEMES),
)


@dataclass(frozen=True)
class Case:
    """The arguments for the builder."""

    family: str
    precision: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        words = (f"{key}={value.replace('/', '+')}" for key, value in self.options.items() if value != SCALES)
        return "-".join([self.family, self.precision, *words])

    def arguments(self, folder: Path) -> list[str]:
        """Return the options for the builder, with the file of scales, if they name it, in `folder`."""
        return [f"{key}={folder / value if value == SCALES else value}" for key, value in self.options.items()]


def cases(families: Sequence[str], every_option: bool) -> Iterator[Case]:
    for family in families:
        for precision in ("fp32", "int4"):
            yield Case(family, precision, {})
            if "sliding_attention" in CONFIGS[family].config.get("layer_types", ()):
                yield Case(family, precision, {"windowed_kv_cache": "false"})
        for precision, options in OPTIONS if every_option else ():
            yield Case(family, precision, options)


def save_checkpoint(family: Family, folder: Path) -> None:
    """Save a model with random weights, and a tokenizer that the builder asks for."""
    start()
    model_class = getattr(transformers, family.model)
    model = enliven(model_class(_config(model_class.config_class, family)))
    model.save_pretrained(folder)
    if "GptOss" in family.model:
        _add_packed_experts(folder / "model.safetensors", model.config)
    _save_tokenizer(folder)


def save_scales(path: Path, scheme: str) -> None:
    """Save scales of a quantized cache of keys and values: one for each layer, or one for each of its channels."""
    width, step = SMALL["num_key_value_heads"] * SMALL["head_dim"], 4 / (127 if "int8" in scheme else 7)
    scale = np.linspace(0.8 * step, step, width).tolist() if "channel" in scheme else step
    layers = [scale] * SMALL["num_hidden_layers"]
    path.write_text(json.dumps({"scales": {"k_scales": layers, "v_scales": layers}}), encoding="utf-8")


def _add_packed_experts(path: Path, config: Any) -> None:
    """Add experts of 4-bit floats, as published, which the builder reads from the file for a quantized model."""
    tensors, experts, hidden, inner = load_file(path), config.num_local_experts, config.hidden_size, config.intermediate_size
    for layer in range(config.num_hidden_layers):
        for name, rows, columns in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
            key, sizes = f"model.layers.{layer}.mlp.experts.{name}", (experts, rows, columns // 32)
            tensors[f"{key}_blocks"] = torch.randint(0, 256, (*sizes, 16), dtype=torch.uint8)
            tensors[f"{key}_scales"] = torch.randint(120, 124, sizes, dtype=torch.uint8)
    save_file(tensors, path, {"format": "pt"})


def _config(kind: Any, family: Family) -> Any:
    """Return the smallest configuration; models of images and text have one for each."""
    if "Whisper" in family.model:
        return kind(**WHISPER)
    settings = {key: value for key, value in {**SMALL, **family.config}.items() if value is not None}
    if "text_config" not in inspect.signature(kind).parameters:
        return kind(**settings)
    return kind(text_config=settings, vision_config=VISION)


def _save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([Path(__file__).read_text(encoding="utf-8")], trainer)
    roles = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)
