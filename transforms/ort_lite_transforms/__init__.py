"""Provider-independent passes and shape rules, one idea a file. Found by the hooks of ort_lite.plugins.hookspecs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ort_lite.inference import RuleFamily
    from ort_lite.inference.schema_text import SchemaFile
    from ort_lite.transform import CastInsertion, LayoutConversion, OlderForm, Transform


def ort_lite_transforms() -> "list[Transform]":
    """In the order in which they are tried. They leave operators that the model's own opset has, and make none of several."""
    from ort_lite_transforms.batch_norm import fuse_conv_batch_norm, fuse_gemm_batch_norm
    from ort_lite_transforms.cast_pair import merge_casts
    from ort_lite_transforms.common_subexpressions import merge_common_subexpressions
    from ort_lite_transforms.constant_folding import fold_constants
    from ort_lite_transforms.constants import constants_to_initializers
    from ort_lite_transforms.conv_affine import fuse_conv_bias, fuse_conv_scale
    from ort_lite_transforms.dead_nodes import remove_dead_nodes
    from ort_lite_transforms.duplicate_initializers import merge_duplicate_initializers
    from ort_lite_transforms.gather_first import gather_before_computing
    from ort_lite_transforms.if_inlining import inline_known_if
    from ort_lite_transforms.known_contents import fold_known_contents, fold_shapes
    from ort_lite_transforms.loop_invariants import hoist_loop_invariants
    from ort_lite_transforms.no_ops import remove_neutral_operand, remove_no_op, remove_same_shape
    from ort_lite_transforms.norm_affine import fuse_norm_affine
    from ort_lite_transforms.quantized_moves import saturate_once
    from ort_lite_transforms.reshape_pair import merge_reshapes
    from ort_lite_transforms.sum_of_two import replace_sum_of_two
    from ort_lite_transforms.transpose_pair import merge_transposes
    from ort_lite_transforms.transpose_sink import (
        sink_transpose_below_constant,
        sink_transpose_below_unary,
        sink_two_transposes,
    )

    return [
        # required
        constants_to_initializers,
        # basic: the graph as a whole
        remove_dead_nodes,
        fold_shapes,
        fold_known_contents,
        fold_constants,
        merge_duplicate_initializers,
        merge_common_subexpressions,
        # basic: rules
        inline_known_if,
        remove_no_op,
        remove_same_shape,
        remove_neutral_operand,
        replace_sum_of_two,
        merge_casts,
        merge_reshapes,
        merge_transposes,
        sink_transpose_below_unary,
        sink_two_transposes,
        sink_transpose_below_constant,
        fuse_conv_batch_norm,
        fuse_gemm_batch_norm,
        fuse_conv_scale,
        fuse_conv_bias,
        fuse_norm_affine,
        saturate_once,
        # extended
        gather_before_computing,
        hoist_loop_invariants,
    ]


def ort_lite_fusions() -> "list[Transform]":
    """In the order in which they are tried: composite operators before what would take their parts."""
    from ort_lite_transforms.batch_norm import fuse_gemm_batch_norm
    from ort_lite_transforms.conv_activation import fuse_conv_activation, fuse_conv_sum
    from ort_lite_transforms.gelu import compose_gelu
    from ort_lite_transforms.gemm_activation import fuse_gemm_activation
    from ort_lite_transforms.gemm_bias import fuse_gemm_bias, fuse_matmul_bias
    from ort_lite_transforms.hard_swish import compose_gated_hard_swish, compose_hard_sigmoid, compose_hard_swish
    from ort_lite_transforms.layer_norm import compose_layer_norm, fuse_layer_norm_bias
    from ort_lite_transforms.quantized_moves import join_integers, keep_integers, move_integers
    from ort_lite_transforms.quantized_products import multiply_integers
    from ort_lite_transforms.swish import compose_swish
    from ort_lite_transforms.transpose_pair import merge_transposes
    from ort_lite_transforms.transpose_sink import sink_transpose_below_unary

    return [
        # basic; those that are not new find more among what others make
        merge_transposes,
        sink_transpose_below_unary,
        move_integers,
        join_integers,
        keep_integers,
        multiply_integers,
        fuse_gemm_batch_norm,
        fuse_matmul_bias,
        fuse_gemm_bias,
        # extended
        compose_hard_swish,
        compose_hard_sigmoid,
        compose_gated_hard_swish,
        compose_swish,
        compose_gelu,
        compose_layer_norm,
        fuse_layer_norm_bias,
        fuse_conv_sum,
        fuse_conv_activation,
        fuse_gemm_activation,
    ]


def ort_lite_shape_rules() -> "list[RuleFamily]":
    """Every operator that has a rule, by family."""
    from ort_lite_transforms.shapes import FAMILIES

    return list(FAMILIES.values())


def ort_lite_schemas() -> "list[SchemaFile]":
    """onnxruntime's own before ONNX's."""
    from ort_lite_transforms.schemas import FILES

    return FILES


def ort_lite_layout_conversion() -> "LayoutConversion":
    from ort_lite_transforms.layout_conversion import ChannelsLast

    return ChannelsLast()


def ort_lite_cast_insertion() -> "CastInsertion":
    from ort_lite_transforms.cast_insertion import insert_casts

    return insert_casts


def ort_lite_older_form() -> "OlderForm":
    from ort_lite_transforms.older_forms import older_form

    return older_form
