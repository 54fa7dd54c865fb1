"""Provider-independent passes and shape rules, one idea a file. Found by the hooks of ort_lite.plugins.hookspecs."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ort_lite.inference import RuleFamily
    from ort_lite.inference.schema_text import SchemaFile
    from ort_lite.transform import CastInsertion, LayoutConversion, OlderForm, Transform


def _load_transforms(*paths: str) -> "list[Transform]":
    """The transforms of these names: "module.function", in this package. They are imported when a session asks for them."""
    pairs = (path.split(".") for path in paths)
    return [getattr(import_module(f"ort_lite_transforms.{module}"), name) for module, name in pairs]


def ort_lite_transforms() -> "list[Transform]":
    """Return the transforms in the order in which they are tried. They keep operators of the model's own opset, and split none."""
    return _load_transforms(
        # required
        "constants.constants_to_initializers",
        "loop_scalars.reshape_loop_scalars",
        # basic: the graph as a whole
        "dead_nodes.remove_dead_nodes",
        "known_contents.fold_shapes",
        "known_contents.fold_known_contents",
        "constant_folding.fold_constants",
        "duplicate_initializers.merge_duplicate_initializers",
        "common_subexpressions.merge_common_subexpressions",
        # basic: rules
        "if_inlining.inline_known_if",
        "no_ops.remove_no_op",
        "no_ops.remove_same_shape",
        "no_ops.remove_neutral_operand",
        "sum_of_two.replace_sum_of_two",
        "cast_pair.merge_casts",
        "reshape_pair.merge_reshapes",
        "transpose_pair.merge_transposes",
        "transpose_pair.transpose_without_reshapes",
        "transpose_sink.sink_transpose_below_unary",
        "transpose_sink.sink_two_transposes",
        "transpose_sink.sink_transpose_below_constant",
        "batch_norm.fuse_conv_batch_norm",
        "batch_norm.fuse_gemm_batch_norm",
        "conv_affine.fuse_conv_scale",
        "conv_affine.fuse_conv_bias",
        "norm_affine.fuse_norm_affine",
        "quantized_moves.saturate_once",
        # extended
        "gather_first.gather_before_computing",
        "loop_invariants.hoist_loop_invariants",
    )


def ort_lite_fusions() -> "list[Transform]":
    """Return the fusions in the order in which they are tried: composite operators before those that would take their parts."""
    return _load_transforms(
        # basic; those that are not new find more among what others make
        "transpose_pair.merge_transposes",
        "transpose_sink.sink_transpose_below_unary",
        "quantized_moves.move_integers",
        "quantized_moves.join_integers",
        "quantized_moves.keep_integers",
        "quantized_products.multiply_integers",
        "block_products.multiply_blocks",
        "batch_norm.fuse_gemm_batch_norm",
        "gemm_bias.fuse_matmul_bias",
        "gemm_bias.fuse_gemm_bias",
        # extended
        "integer_product_scales.fuse_integer_scales",
        "integer_product_scales.fuse_integer_bias",
        "attention.compose_attention",
        "attention_past.append_past",
        "hard_swish.compose_hard_swish",
        "hard_swish.compose_hard_sigmoid",
        "hard_swish.compose_gated_hard_swish",
        "swish.compose_swish",
        "gelu.compose_gelu",
        "layer_norm.compose_layer_norm",
        "layer_norm.fuse_layer_norm_bias",
        "conv_activation.fuse_conv_sum",
        "conv_activation.fuse_conv_activation",
        "gemm_activation.fuse_gemm_activation",
    )


def ort_lite_shape_rules() -> "list[RuleFamily]":
    """Every operator that has a rule, by family."""
    from ort_lite_transforms.shapes import FAMILIES

    return list(FAMILIES.values())


def ort_lite_schemas() -> "list[SchemaFile]":
    """onnxruntime's own before ONNX's."""
    from ort_lite_transforms.schemas import FILES

    return FILES


def ort_lite_layout_conversion() -> "LayoutConversion":
    """Return the conversion to channels last."""
    from ort_lite_transforms.layout_conversion import ChannelsLast

    return ChannelsLast()


def ort_lite_cast_insertion() -> "CastInsertion":
    """Return the function that inserts Casts around nodes whose type no provider supports."""
    from ort_lite_transforms.cast_insertion import insert_casts

    return insert_casts


def ort_lite_older_form() -> "OlderForm":
    """Return the function that rewrites operators for models of an older opset."""
    from ort_lite_transforms.older_forms import older_form

    return older_form
