"""Operators of language models of com.microsoft: experts, routers and gates."""

from typing import Any

from ort_lite.testing.generator.arrays import between
from ort_lite.testing.generator.draw import Draw, Shape
from ort_lite.testing.generator.recipe import NodeProposal, call, recipe
from ort_lite.testing.generator.recipes.microsoft_attention import MICROSOFT, SCALES
from ort_lite.testing.generator.recipes.microsoft_quantized import WHOLE


def _experts(draw: Draw) -> tuple[Shape, int, int, dict[str, Any]]:
    """Draw the shape of tokens, the experts, the rows of the first layer for a row of the second, and attributes."""
    tokens, count = draw.shape(1, 2, most=4, least=1), draw.integer(1, 4)
    kind = draw.choice((None, "relu", "gelu", "silu", "identity", "swiglu"))
    fused = 2 if kind == "swiglu" else 1
    attributes: dict[str, Any] = {
        "k": draw.integer(1, count) if count > 1 else draw.maybe(1),
        "activation_type": kind,
        "normalize_routing_weights": draw.maybe(draw.integer(0, 1)),
    }
    if kind == "swiglu":
        attributes |= {
            "swiglu_fusion": 1,
            "activation_alpha": draw.maybe(1.702),
            "activation_beta": draw.maybe(1.0),
            "swiglu_limit": draw.maybe(draw.choice((0.5, 7.0))),
        }
    return tokens, count, fused, attributes


@recipe("MoE", domain=MICROSOFT)
def moe(draw: Draw) -> NodeProposal:
    """Draw two layers of a few experts, as onnxruntime's kernel for CPUs takes them."""
    tokens, count, fused, attributes = _experts(draw)
    rows = tokens[0] if len(tokens) == 1 else tokens[0] * tokens[1]
    hidden, inner = draw.integer(1, 9), draw.integer(1, 9)
    if hidden == inner:
        inner += 1  # the legacy order of dimensions looks the same then
    operands = [
        draw.tensor(0, (*tokens, hidden)),
        draw.tensor(1, (rows, count)),
        draw.tensor(2, (count, fused * inner, hidden)),
        draw.tensor(3, (count, fused * inner)) if draw.chance(0.5) else "",
        draw.tensor(4, (count, hidden, inner)),
        draw.tensor(5, (count, hidden)) if draw.chance(0.5) else "",
    ]
    return call(operands, **attributes)


@recipe("QMoE", domain=MICROSOFT)
def quantized_moe(draw: Draw) -> NodeProposal:
    """Draw weights of a few bits, with a scale for each row or for each block of it."""
    draw.types["T1"] = "uint8"
    if draw.types["T2"].startswith("float8"):
        draw.types["T2"] = draw.types["T"]
    draw.types["T"] = draw.types["T2"]
    tokens, count, fused, attributes = _experts(draw)
    rows = tokens[0] if len(tokens) == 1 else tokens[0] * tokens[1]
    bits, size = draw.choice((2, 4, 4, 8)), draw.choice((0, 0, 16))
    hidden, inner = (48, 32) if size else (8 * draw.integer(1, 3), 32)
    zeros, constant = draw.chance(0.4), draw.maybe(True, 0.6)

    def layer(at: int, n: int, k: int) -> tuple[str, str, str]:
        blocks = k // size if size else 1
        shape = (count, n, -(-blocks * bits // 8)) if size else (count, -(-n * bits // 8))
        return (
            draw.tensor(at, (count, n, k * bits // 8), WHOLE, constant),
            draw.tensor(at + 1, (count, n, *((blocks,) if size else ())), SCALES, constant),
            draw.tensor(11 if at == 2 else 12, shape, WHOLE, constant) if zeros else "",
        )

    first, second = layer(2, fused * inner, hidden), layer(5, hidden, inner)
    operands = [
        draw.tensor(0, (*tokens, hidden)),
        draw.tensor(1, (rows, count)),
        *first[:2],
        draw.tensor(4, (count, fused * inner)) if draw.chance(0.5) else "",
        *second[:2],
        draw.tensor(7, (count, hidden)) if draw.chance(0.5) else "",
        *("", "", ""),
        first[2],
        second[2],
        "",
        draw.tensor(14, (rows, count), between(0, 1)) if draw.chance(0.3) else "",
    ]
    return call(operands, expert_weight_bits=bits if bits != 4 else draw.maybe(4), block_size=size or None, **attributes)


@recipe("MoEGroupRouter", domain=MICROSOFT)
def moe_group_router(draw: Draw) -> NodeProposal:
    """Draw groups of experts, of which some are active."""
    groups, size = draw.integer(1, 3), draw.integer(1, 3)
    active = draw.integer(1, groups)
    operands = [draw.tensor(0, (*draw.shape(1, 2, most=4, least=1), groups * size)), draw.tensor(1, (groups * size,))]
    return call(
        operands,
        n_group=groups if groups > 1 else draw.maybe(1),
        topk_group=active if active > 1 else draw.maybe(1),
        group_topk=draw.maybe(draw.integer(1, size)),
        top_k=draw.integer(1, active * size),
        router_sentinel=draw.maybe(-100.0),
    )


@recipe("GatedAdd", domain=MICROSOFT)
def gated_add(draw: Draw) -> NodeProposal:
    """Draw two tensors and a gate for each row."""
    shape = draw.shape(1, 3, most=5)
    return call([draw.tensor(0, shape), draw.tensor(1, shape), draw.tensor(2, (*shape[:-1], 1))])


@recipe("GatedRMSNorm", domain=MICROSOFT)
def gated_rms_norm(draw: Draw) -> NodeProposal:
    """Draw rows of one or more groups, and a gate for each number."""
    size = draw.integer(1, 5)
    shape = (*draw.shape(0, 2, most=4), size * draw.integer(1, 3))
    kind = draw.choice((None, "silu", "swish", "sigmoid"))
    return call(
        [draw.tensor(0, shape), draw.tensor(1, (size,)), draw.tensor(2, shape)], activation=kind, epsilon=draw.maybe(1e-3)
    )


@recipe("ScaledSiLU", domain=MICROSOFT)
def scaled_silu(draw: Draw) -> NodeProposal:
    """Draw a tensor of any rank, and a scale that is an attribute or an input."""
    scale = draw.scalar(draw.choice((0.5, 1.702)), draw.types["M"]) if draw.chance(0.3) else ""
    return call([draw.tensor(0, draw.shape(0, 4, most=5)), scale], alpha=draw.maybe(1.702))


def _streams(draw: Draw) -> tuple[Shape, Shape, int, int, int | None]:
    """Draw the leading shape, the shape of streams, their number and size, and `num_branches` where they share the last axis."""
    lead, count, n = draw.shape(1, 2, most=4, least=1), draw.integer(1, 4), draw.integer(1, 5)
    if draw.chance(0.4):
        return lead, (*lead, count * n), count, n, count
    return lead, (*lead, count, n), count, n, None


@recipe("BranchwiseRMSNorm", domain=MICROSOFT)
def branchwise_rms_norm(draw: Draw) -> NodeProposal:
    """Draw branches, and a scale for each number, for a number of each branch, or none."""
    _, shape, count, n, branches = _streams(draw)
    scale = draw.choice((None, (count, n), (count * n,), (n,)))
    operands = [draw.tensor(0, shape), "" if scale is None else draw.tensor(1, scale)]
    return call(operands, num_branches=branches, epsilon=draw.maybe(1e-3))


@recipe("HyperConnectionPreMix", domain=MICROSOFT)
def hyper_connection_pre_mix(draw: Draw) -> NodeProposal:
    """Draw streams, and a gate for each of them or for each number."""
    lead, shape, count, n, branches = _streams(draw)
    gate = draw.tensor(1, (*lead, *draw.choice(((count,), (count, 1), (count, n)))))
    return call([draw.tensor(0, shape), gate], num_branches=branches, reduction_scale=draw.maybe(0.5))


@recipe("HyperConnectionPostMix", domain=MICROSOFT)
def hyper_connection_post_mix(draw: Draw) -> NodeProposal:
    """Draw streams, the output of a block, gates, and sometimes a matrix that mixes the streams."""
    lead, shape, count, n, branches = _streams(draw)
    operands = [
        draw.tensor(0, shape),
        draw.tensor(1, (*lead, n)),
        draw.tensor(2, (*lead, *draw.choice(((count,), (count, 1), (count, n))))),
        draw.tensor(3, (*lead, count, count)) if draw.chance(0.5) else "",
    ]
    return call(operands, num_branches=branches)


@recipe("LinearAttentionGate", domain=MICROSOFT)
def linear_attention_gate(draw: Draw) -> NodeProposal:
    """Draw projections, of the decay alone or of the rate of updates as well."""
    shape = draw.shape(1, 3, most=5)
    operands = [draw.tensor(0, shape), draw.tensor(1, shape[-1:]), draw.tensor(2, shape[-1:])]
    return call([*operands, draw.tensor(3, shape)], 2) if draw.chance(0.5) else call(operands)


@recipe("EngramGate", domain=MICROSOFT)
def engram_gate(draw: Draw) -> NodeProposal:
    """Draw keys and queries of a few hyper-connections, a value that they share, and scales of their norms."""
    batch, steps, count, n = (draw.integer(1, 4) for _ in range(4))
    operands = [
        *(draw.tensor(index, (batch, steps, count, n)) for index in (0, 1)),
        draw.tensor(2, (batch, steps, n)),
        *(draw.tensor(index, (count, n)) for index in (3, 4)),
    ]
    normed = draw.chance(0.5)
    return call([*operands, draw.tensor(5, (count, n)) if normed else ""], 1 + normed, epsilon=draw.maybe(1e-3))
