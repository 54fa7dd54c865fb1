"""The config entries that sessions and runs accept: those of onnxruntime 1.24 to 1.32, and ort_lite's own.

onnxruntime's keys are listed in onnxruntime_keys.txt, which tests/compat/releases.py generates from onnxruntime's packages.

A known key without effect (thread spinning, Qualcomm's power modes) is accepted because programs set it, and reported once a
session. Keys with an effect are in ACTING and ACTING_IN_RUNS. An unknown key is an error. Providers add keys in
`ExecutionProvider.config_keys`.
"""

import os
from collections.abc import Collection, Iterable
from functools import cache

from ort_lite import log
from ort_lite.errors import InvalidArgument, hint
from ort_lite.native.missing import OPTION as COMPILE

DISABLE_CPU_FALLBACK = "session.disable_cpu_ep_fallback"
"""A session entry. "1": a node on the default CPU provider, also in a body, is an error that names it."""

DISABLE_COMPILE = "session.disable_model_compile"
"""A session entry. "1": a partition that would have to be compiled is an error, except on the default provider.

Partitions compiled before are EPContext nodes.
"""

DISABLED_OPTIMIZERS = "optimization.disable_specified_optimizers"
"""A session entry: the names of transforms to skip, separated by ";"."""

DISABLE_SYNC = "disable_synchronize_execution_providers"
"""A run entry. "1": the run does not wait for its devices at its end. "0": it does, even if its inputs and outputs are bound."""

KEEP_CONSTANTS = "ort_lite.keep_constants"
"""A session entry. "1": arrays of consumed constants are kept, which `run(verify=...)` needs."""

CONTEXT_ENABLE, CONTEXT_PATH, CONTEXT_EMBED = "ep.context_enable", "ep.context_file_path", "ep.context_embed_mode"
"""Session entries that save an EPContext model during session creation (see `InferenceSession.save_compiled`).

"1" enables it; the path is by default the model's with "_ctx" before its extension; "1" embeds contexts in the model's file, "0" (the
default) writes them to files next to it.
"""

SHRINK = "memory.enable_memory_arena_shrinkage"
"""A run entry: devices ("cpu:0;gpu:0") whose idle memory is released after the run."""

INITIALIZERS_FOLDER = "session.model_external_initializers_file_folder_path"
OPTIMIZED_BESIDE = "session.optimized_model_external_initializers_file_name"
OPTIMIZED_LEAST = "session.optimized_model_external_initializers_min_size_in_bytes"
CPU_ARENA, ENVIRONMENT = "session.enable_cpu_mem_arena", "session.use_env_allocators"

LAYERS_BY_NAME = "session.name_based_layer_assignment"
"""A session entry that assigns nodes to devices by parts of their names (see `ort_lite.compat.layer_assignment`)."""

LOAD_FORMAT, SAVE_FORMAT = "session.load_model_format", "session.save_model_format"
"""Session entries: the model formats. "ONNX" is the only supported one; onnxruntime's "ORT" is an error."""

RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""A session entry. "1": `InferenceSession.get_provider_graph_assignment_info` is available."""

_TABLE = os.path.join(os.path.dirname(__file__), "onnxruntime_keys.txt")

_DOCUMENTED = frozenset(
    {
        "ep.context_node_name_prefix",
        "ep.dynamic.qnn_htp_performance_mode",
        "ep.dynamic.workload_type",
        "ep.nnapi.partitioning_stop_ops",
        "ep.share_ep_contexts",
        "ep.stop_share_ep_contexts",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "optimization.enable_memory_probe_recompute_config",
        "optimization.memory_optimizer_config",
    }
)
"""Session entries that onnxruntime documents but that its packages for x86-64 CPUs do not read."""

PREPARED = "ort_lite.prepared"
"""A session entry. "0": the session neither reads nor stores a prepared program (see docs/kernel-cache.md). "1" is the default."""

ROUNDING = "ort_lite.round_16_bit"
ROUNDINGS = ("", "regions", "nodes", "steps")
_HALVES = frozenset({"float16", "bfloat16"})
"""A session entry and its values: where float16 and bfloat16 that are computed as float32 are rounded.

"regions", the default as in onnxruntime: where a group of such nodes passes results to others; "nodes": after every node; "steps": also
after each operator of which ONNX's functions of Softmax and Attention consist.
"""

CREATION_TRACE = "ort_lite.creation_trace"
"""A session entry. "1": `InferenceSession.creation_trace` is recorded."""

MEMORY_PLANNER = "ort_lite.memory_planner"
"""A session entry: the planner of scratch memory, a name of PLANNERS or of a plugin's planner."""

MEMORIES = "ort_lite.memories"
"""A session entry: the memories of a provider's device, such as "fast=512K, slow=64M" (see `planning.declarations`)."""

STRICT = "ort_lite.strict"
"""A session entry. "1": a listed provider that is not installed, has no device or runs no node is an error.

It sets `required` of `ort_lite.options.policies` for all listed providers.
"""

VERIFY = "ort_lite.verify"
"""A session entry. "first": runs are verified until one passes (see the keyword `verify` of `InferenceSession`)."""

INSTALLED_TRANSFORMS = "ort_lite.transforms"
"""A session entry: installed plugins whose transforms and fusions are used, separated by ";", or "all"."""

OWN_KEYS = frozenset(
    {
        "session.memory_limit_bytes",
        KEEP_CONSTANTS,
        ROUNDING,
        CREATION_TRACE,
        MEMORY_PLANNER,
        MEMORIES,
        COMPILE,
        STRICT,
        VERIFY,
        INSTALLED_TRANSFORMS,
        PREPARED,
        "ort_lite.partitioning",
        "ort_lite.cost_model",
    }
)
"""Session entries that onnxruntime does not have.

See also `ort_lite.memory.session_memory`, `ort_lite.partition.cost.strategy` and `ort_lite.native.missing`.
"""

_DOCUMENTED_IN_RUNS = frozenset({
    "qnn.htp_perf_mode", "qnn.htp_perf_mode_post_run", "qnn.rpc_control_latency", "qnn.lora_config",
})  # fmt: skip
"""Run entries that onnxruntime documents but that its packages for CPUs do not read."""

ACTING = OWN_KEYS | {
    DISABLE_CPU_FALLBACK, DISABLE_COMPILE, DISABLED_OPTIMIZERS, CONTEXT_ENABLE, CONTEXT_PATH, CONTEXT_EMBED, INITIALIZERS_FOLDER,
    OPTIMIZED_BESIDE, OPTIMIZED_LEAST, CPU_ARENA, ENVIRONMENT, LAYERS_BY_NAME, RECORD_ASSIGNMENT,
    LOAD_FORMAT, SAVE_FORMAT,
}  # fmt: skip
"""Session entries with an effect, besides those of providers."""

ACTING_IN_RUNS = frozenset({SHRINK, DISABLE_SYNC})
"""Run entries with an effect, besides those of providers."""

OPEN_PREFIXES = ("ep.cuda.", "ep.cudaexecutionprovider.")
"""Prefixes of keys that onnxruntime leaves to its own providers."""


def session_keys() -> frozenset[str]:
    """Return the keys that sessions accept regardless of their providers."""
    return _of_onnxruntime("session") | _DOCUMENTED | OWN_KEYS


def run_keys() -> frozenset[str]:
    """Return the keys that runs accept regardless of the session's providers."""
    return _of_onnxruntime("run") | _DOCUMENTED_IN_RUNS


@cache
def _of_onnxruntime(kind: str) -> frozenset[str]:
    with open(_TABLE, encoding="utf-8") as file:
        return frozenset(line.split()[1] for line in file if line.startswith(f"{kind} "))


def types_to_round(value: str) -> frozenset[str]:
    """Return the 16-bit types that are rounded after each node for a value of ROUNDING.

    The default rounds types that onnxruntime does not compute. Raises InvalidArgument for an unknown value.
    """
    if value not in ROUNDINGS:
        raise InvalidArgument(
            "session config entry {} is {!r}; it should be {!r}, {!r} or {!r}".format(ROUNDING, value, *ROUNDINGS[1:])
        )
    return frozenset({"bfloat16"}) if not value else frozenset() if value == "regions" else _HALVES


def check_session(keys: Iterable[str], more: Iterable[str] = ()) -> None:
    """Raise InvalidArgument for an unknown session key, with the nearest one. `more` are keys of the providers."""
    given = list(keys)
    if given:
        _check(given, session_keys() | set(more), "session")


def check_run(keys: Iterable[str], more: Iterable[str] = ()) -> None:
    """Raise InvalidArgument for an unknown run key, with the nearest one. `more` are keys of the providers."""
    _check(keys, run_keys() | set(more), "run")


def note_without_effect(keys: Iterable[str], acting: Collection[str], what: str, whose: log.Whose) -> None:
    """Warn about accepted entries that have no effect, if there are any."""
    idle = sorted(key for key in keys if key not in acting)
    if idle:
        one = len(idle) == 1
        entries = f"{what} config entr{'y' if one else 'ies'} {', '.join(idle)}"
        log.warn(whose, f"{entries} {'has' if one else 'have'} no effect here")


def _check(keys: Iterable[str], known: frozenset[str], what: str) -> None:
    for key in keys:
        if key not in known and not key.startswith(OPEN_PREFIXES):
            raise InvalidArgument(f"no {what} config entry is called {key!r}{hint(key, sorted(known))}")
