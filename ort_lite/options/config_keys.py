"""The config entries that sessions and runs take: those that onnxruntime documents, and ort_lite's own.

A key that is known and has no effect here (threads' spinning, Qualcomm's power modes) is taken, since programs set it, and noted once
a session; those in ACTING and ACTING_IN_RUNS have one. One that nobody knows is an error. Providers add theirs in
`ExecutionProvider.config_keys`.
"""

from collections.abc import Collection, Iterable

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
"""A session's entry: nodes to devices by parts of their names (see ort_lite.partition.layer_assignment)."""

LOAD_FORMAT, SAVE_FORMAT = "session.load_model_format", "session.save_model_format"
"""Sessions' entries: "ONNX", the only one that there is here; "ORT", onnxruntime's own, is an error."""

RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""A session's entry; "1": `InferenceSession.get_provider_graph_assignment_info` answers, as `explain` always does."""

_SESSION = """
ep: context_embed_mode context_enable context_file_path context_model_external_initializers_file_name
 context_node_name_prefix context_source_model_path dynamic.qnn_htp_performance_mode dynamic.workload_type
 enable_weightless enable_weightless_ep_context_nodes nnapi.partitioning_stop_ops share_ep_contexts stop_share_ep_contexts
mlas: disable_kleidiai enable_gemm_fastmath_arm64_bfloat16 kleidiai.conv_igemm_max_work nchwc_depthwise_sliding
 nchwc_pointwise_conv_max_input_channel_batch qnbit.force_fp32 use_lut_gemm
optimization: constant_folding_max_output_size_in_bytes disable_specified_optimizers enable_cast_chain_elimination
 enable_gelu_approximation enable_memory_probe_recompute_config memory_optimizer_config minimal_build_optimizations
session: allow_released_opsets_only collect_node_memory_stats_to_file compile_only debug_layout_transformation
 disable_aot_function_inlining disable_cpu_ep_fallback disable_double_qdq_remover disable_model_compile disable_prepacking
 disable_qdq_constant_folding disable_quant_qdq dynamic_block_base enable_cpu_mem_arena enable_dq_matmulnbits_fusion
 enable_mem_pattern enable_moe_expert_counting enable_moe_expert_statistics enable_profiling enable_quant_qdq_cleanup
 enable_saved_runtime_optimizations execution_mode fail_on_suboptimal_compiled_model force_spinning_stop
 function_expansion_byte_limit function_expansion_node_limit gqa_value_layout graph_optimization_level
 graph_optimizations_loop_level inter_op.allow_spinning inter_op.spin_backoff_max inter_op.spin_duration_us
 inter_op_num_threads intra_op.allow_spinning intra_op.spin_backoff_max intra_op.spin_duration_us intra_op_num_threads
 intra_op_thread_affinities layer_assignment_settings load_model_format log_id log_severity_level log_verbosity_level
 max_shape_override model_external_initializers_file_folder_path moe_expert_counter_alpha moe_expert_counter_beta
 moe_expert_counter_state_file name_based_layer_assignment node_partition_config_file
 optimized_model_external_initializers_file_name optimized_model_external_initializers_min_size_in_bytes
 optimized_model_filepath prepack.enable_parallel qdq_matmulnbits_accuracy_level qdq_matmulnbits_block_size qdqisint8allowed
 record_ep_graph_assignment_info resource_cuda_partitioning_settings save_external_prepacked_constant_initializers
 save_model_format set_denormal_as_zero strict_shape_type_inference strict_workspace_verification use_deterministic_compute
 use_device_allocator_for_initializers use_env_allocators use_external_initializer_file_buffers_directly
 use_memory_mapped_ort_model use_ort_model_bytes_directly use_ort_model_bytes_for_initializers use_per_session_threads
 x64quantprecision
"""

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

RUN_KEYS = frozenset({
    SHRINK, DISABLE_SYNC, "gpu_graph_id", "qnn.htp_perf_mode", "qnn.htp_perf_mode_post_run",
    "qnn.rpc_control_latency", "qnn.lora_config",
})  # fmt: skip

ACTING = OWN_KEYS | {
    DISABLE_CPU_FALLBACK, DISABLE_COMPILE, DISABLED_OPTIMIZERS, CONTEXT_ENABLE, CONTEXT_PATH, CONTEXT_EMBED, INITIALIZERS_FOLDER,
    OPTIMIZED_BESIDE, OPTIMIZED_LEAST, CPU_ARENA, ENVIRONMENT, LAYERS_BY_NAME, RECORD_ASSIGNMENT,
    LOAD_FORMAT, SAVE_FORMAT,
}  # fmt: skip
"""Sessions' entries that have an effect, beside those of providers."""

ACTING_IN_RUNS = frozenset({SHRINK, DISABLE_SYNC})
"""Runs' entries that have an effect, beside those of providers."""

OPEN_PREFIXES = ("ep.cuda.",)
"""Families of keys that onnxruntime leaves to a provider of its own."""


def session_keys() -> frozenset[str]:
    """All that onnxruntime documents for sessions, and those of ort_lite."""
    found, group = set(), ""
    for word in _SESSION.split():
        if word.endswith(":"):
            group = word[:-1]
        else:
            found.add(f"{group}.{word}")
    return frozenset(found | OWN_KEYS)


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
    """As `check_session`, for the entries of RunOptions."""
    _check(keys, RUN_KEYS | set(more), "run")


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
