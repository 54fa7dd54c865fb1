"""The config entries that sessions and runs accept: those of onnxruntime 1.24 to 1.32, and ort_lite's own.

Those of onnxruntime are in onnxruntime_keys.txt, which tests/compat/releases.py writes from onnxruntime's packages.

A key that is known and has no effect here (threads' spinning, Qualcomm's power modes) is taken, since programs set it, and noted once
a session; those in ACTING and ACTING_IN_RUNS have one. One that nobody knows is an error. Providers add theirs in
`ExecutionProvider.config_keys`.
"""

import os
from collections.abc import Collection, Iterable
from functools import cache

from ort_lite import log
from ort_lite.errors import InvalidArgument, hint
from ort_lite.native.missing import OPTION as COMPILE

DISABLE_CPU_FALLBACK = "session.disable_cpu_ep_fallback"
"""ort_lite's effect: a node on the default CPU provider is an error that names it, nodes of bodies included."""

DISABLE_COMPILE = "session.disable_model_compile"
"""A partition of a provider other than the default one that was not compiled before, as an EPContext node, is an error."""

DISABLED_OPTIMIZERS = "optimization.disable_specified_optimizers"
"""A session's entry: names of transforms, with ";" between them, that it does without."""

DISABLE_SYNC = "disable_synchronize_execution_providers"
"""A run's entry; ort_lite's effect: providers are not told to `sync` when the run ends."""

KEEP_CONSTANTS = "ort_lite.keep_constants"
"""A session's entry; "1": it keeps the arrays of constants that providers absorbed, which `run(verify=...)` needs."""

CONTEXT_ENABLE, CONTEXT_PATH, CONTEXT_EMBED = "ep.context_enable", "ep.context_file_path", "ep.context_embed_mode"
"""Sessions' entries; "1": what providers compiled is saved when the session is made (see `InferenceSession.save_compiled`); the path
(by default the model's, with "_ctx" before its ending); contexts in the model's file ("1") or in files beside it ("0", the default).
"""

SHRINK = "memory.enable_memory_arena_shrinkage"
"""A run's config entry: devices ("cpu:0;gpu:0") whose memory that no run has goes back when the run is done."""

INITIALIZERS_FOLDER = "session.model_external_initializers_file_folder_path"
OPTIMIZED_BESIDE = "session.optimized_model_external_initializers_file_name"
OPTIMIZED_LEAST = "session.optimized_model_external_initializers_min_size_in_bytes"
CPU_ARENA, ENVIRONMENT = "session.enable_cpu_mem_arena", "session.use_env_allocators"

LAYERS_BY_NAME = "session.name_based_layer_assignment"
"""A session's entry: nodes to devices by parts of their names (see ort_lite.compat.layer_assignment)."""

LOAD_FORMAT, SAVE_FORMAT = "session.load_model_format", "session.save_model_format"
"""Sessions' entries: "ONNX", the only one that there is here; "ORT", onnxruntime's own, is an error."""

RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""A session's entry; "1": `InferenceSession.get_provider_graph_assignment_info` answers, as `explain` always does."""

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
"""Sessions' entries that onnxruntime documents, and that its packages for x86-64 CPUs do not read."""

ROUNDING = "ort_lite.round_16_bit"
ROUNDINGS = ("", "regions", "nodes", "steps")
_HALVES = frozenset({"float16", "bfloat16"})
"""A session's entry and its values: where float16 and bfloat16 are rounded that are computed as float32. Where such nodes pass results
to others ("regions", the default, as in onnxruntime), at every node ("nodes"), or also where the operators end of which ONNX's
functions of Softmax and Attention consist ("steps").
"""

CREATION_TRACE = "ort_lite.creation_trace"
"""A session's entry; "1": `InferenceSession.creation_trace` says what making it did."""

MEMORY_PLANNER = "ort_lite.memory_planner"
"""Who packs the scratch memory of a session: a name of ort_lite.memory.planning.planner.PLANNERS or of a plugin's planner."""

STRICT = "ort_lite.strict"
"""A session's entry; "1": a listed provider that is not installed, has no device or is assigned no node is an error (see
`required` in ort_lite.options.policies, which it turns on for all of them).
"""

INSTALLED_TRANSFORMS = "ort_lite.transforms"
"""A session's entry: names of installed plugins, with ";" between them, whose transforms and fusions it uses; "all": every one's."""

OWN_KEYS = frozenset(
    {
        "session.memory_limit_bytes",
        KEEP_CONSTANTS,
        ROUNDING,
        CREATION_TRACE,
        MEMORY_PLANNER,
        COMPILE,
        STRICT,
        INSTALLED_TRANSFORMS,
        "ort_lite.partitioning",
        "ort_lite.cost_model",
    }
)
"""Sessions' entries that onnxruntime does not have; see ort_lite.memory.account, ort_lite.partition.cost.strategy and
ort_lite.native.missing.
"""

_DOCUMENTED_IN_RUNS = frozenset({
    "qnn.htp_perf_mode", "qnn.htp_perf_mode_post_run", "qnn.rpc_control_latency", "qnn.lora_config",
})  # fmt: skip
"""Runs' entries that onnxruntime documents, and that its packages for CPUs do not read."""

ACTING = OWN_KEYS | {
    DISABLE_CPU_FALLBACK, DISABLE_COMPILE, DISABLED_OPTIMIZERS, CONTEXT_ENABLE, CONTEXT_PATH, CONTEXT_EMBED, INITIALIZERS_FOLDER,
    OPTIMIZED_BESIDE, OPTIMIZED_LEAST, CPU_ARENA, ENVIRONMENT, LAYERS_BY_NAME, RECORD_ASSIGNMENT,
    LOAD_FORMAT, SAVE_FORMAT,
}  # fmt: skip
"""Sessions' entries that have an effect, beside those of providers."""

ACTING_IN_RUNS = frozenset({SHRINK, DISABLE_SYNC})
"""Runs' entries that have an effect, beside those of providers."""

OPEN_PREFIXES = ("ep.cuda.", "ep.cudaexecutionprovider.")
"""Families of keys that onnxruntime leaves to a provider of its own."""


def session_keys() -> frozenset[str]:
    """Return the keys that sessions accept without regard to their providers."""
    return _of_onnxruntime("session") | _DOCUMENTED | OWN_KEYS


def run_keys() -> frozenset[str]:
    """Return the keys that runs accept without regard to their providers."""
    return _of_onnxruntime("run") | _DOCUMENTED_IN_RUNS


@cache
def _of_onnxruntime(kind: str) -> frozenset[str]:
    with open(_TABLE, encoding="utf-8") as file:
        return frozenset(line.split()[1] for line in file if line.startswith(f"{kind} "))


def rounded_by_node(value: str) -> frozenset[str]:
    """The 16-bit floats that ROUNDING has rounded behind each node: without a value those that onnxruntime does not compute.

    Raises InvalidArgument for a value that it does not have.
    """
    if value not in ROUNDINGS:
        raise InvalidArgument(
            "session config entry {} is {!r}; it should be {!r}, {!r} or {!r}".format(ROUNDING, value, *ROUNDINGS[1:])
        )
    return frozenset({"bfloat16"}) if not value else frozenset() if value == "regions" else _HALVES


def check_session(keys: Iterable[str], more: Iterable[str] = ()) -> None:
    """`more`: keys of the session's providers. Raises InvalidArgument for a key that nobody knows, with the nearest one."""
    given = list(keys)
    if given:
        _check(given, session_keys() | set(more), "session")


def check_run(keys: Iterable[str], more: Iterable[str] = ()) -> None:
    """Check the entries of RunOptions as `check_session` does those of SessionOptions."""
    _check(keys, run_keys() | set(more), "run")


def note_without_effect(keys: Iterable[str], acting: Collection[str], what: str, whose: log.Whose) -> None:
    """A warning that names the entries that were taken and change nothing, if there are some."""
    idle = sorted(key for key in keys if key not in acting)
    if idle:
        one = len(idle) == 1
        entries = f"{what} config entr{'y' if one else 'ies'} {', '.join(idle)}"
        log.warn(whose, f"{entries} {'has' if one else 'have'} no effect here")


def _check(keys: Iterable[str], known: frozenset[str], what: str) -> None:
    for key in keys:
        if key not in known and not key.startswith(OPEN_PREFIXES):
            raise InvalidArgument(f"no {what} config entry is called {key!r}{hint(key, sorted(known))}")
