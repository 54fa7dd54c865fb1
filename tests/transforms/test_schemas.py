"""The tables of schemas against the installed onnx and onnxruntime, and what our transforms make against the tables."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_schemas

import ort_lite
from ort_lite.dtypes import is_dtype
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference.form import check_form
from ort_lite.inference.schema import Schemas, format_kind
from ort_lite.inference.schema_text import OpSchema, SchemaFile
from ort_lite.inference.traits import parse_traits
from ort_lite.load.load import load
from ort_lite.partition.cost.work import operations, sizes_for
from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_cpu.operators import COMPLEX_FAMILIES, FAMILIES, STRING_FAMILIES
from ort_lite_transforms.schemas import FILES, TOLERATED
from ort_lite_transforms.schemas.generate import COMPLETE, FILE, table
from ort_lite_transforms.shapes import FAMILIES as RULES
from tests.text_graphs import every_transform, model
from tests.transforms.test_all import CONSTANTS, random_body

Key = tuple[str, str, int]
OWN, ONNX = FILES

DIFFERENT = {
    "SkipLayerNormalization": "T: float64 too, which the kernels of both runtimes have",
    "SkipSimplifiedLayerNormalization": "T: float64 too, as above",
    "FusedConv": "T: bfloat16 too, since fusing must not depend on the type of a Conv",
    "FusedGemm": "T: bfloat16 too, since fusing must not depend on the type of a Gemm",
}
"""Operators of com.microsoft that we declare otherwise than onnxruntime, and why."""
LEFT_OUT = {
    "DisentangledAttention_TRT": "TensorRT's own",
    "EfficientNMS_TRT": "TensorRT's own",
    "PyramidROIAlign_TRT": "TensorRT's own",
    "MultilevelCropAndResize_TRT": "TensorRT's own",
    "MemcpyFromHost": "onnxruntime inserts it",
    "MemcpyToHost": "onnxruntime inserts it",
    "GRUUnit": "of a draft of ONNX; nobody runs it",
    "GivenTensorFill": "of a draft of ONNX; nobody runs it",
    "DynamicSlice": "of a draft of ONNX; nobody runs it",
}
"""Operators that onnxruntime has in ai.onnx and we have no schema of."""

_DEVICES = "onnxruntime has no kernel of it for CPUs"
UNDECLARED = {
    f"{_DEVICES}, new in 1.32": """
        ConvStateReplay GatedDeltaNetStateReplay HyperConnectionLowRankMix Mamba2Verify MatMulNBitsQLoRA MatMulPacked MoEPacked
        PackedSparseAttentionIndexerMerge RMSNormRotary RouterGateUpProj SpeculativePrefixCommit SwiGLU""",
    _DEVICES: """
        BitmaskBiasDropout BitmaskDropout ComplexMul ComplexMulConj DecoderAttention DecoderMaskedSelfAttention DequantizeBFP
        DequantizeWithOrder DynamicSparseAttention FusedMatMulActivation GatedRelativePositionBias GemmFloat8 GemmaRotaryEmbedding
        Irfft LongformerAttention MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight MatMulNBitsMlp MatMulNBitsQkv
        PackedAttention PackedMultiHeadAttention PackedSparseAttentionIndexer PagedAttention QOrderedAttention QOrderedGelu
        QOrderedLayerNormalization QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeWithOrder RelativePositionBias
        RemovePadding RestorePadding Rfft SkipGroupNorm Snpe SparseAttentionIndexer SparsePagedAttention TorchEmbedding""",
    "a compiled partition, see ort_lite/session/context.py": "EPContext",
}
"""Operators of com.microsoft that onnxruntime has and that are not declared, by the reason."""


def limits() -> dict[str, int]:
    """The newest opset that onnx.txt has of each domain."""
    found: dict[str, int] = {}
    for domain, op_type in keys_of(ONNX):
        found[domain] = max(found.get(domain, 0), *ONNX.versions(domain, op_type))
    return found


def keys_of(file: Any) -> list[tuple[str, str]]:
    heads = [(domain, line.partition(" ")[0]) for domain, lines in file._read().items() for line in lines]
    return list(dict.fromkeys((domain, head.rpartition("-")[0]) for domain, head in heads))


@cache
def of_onnx() -> dict[Key, defs.OpSchema]:
    """What the installed onnx has of the opsets of the table."""
    newest = limits()
    every = defs.get_all_schemas_with_history()
    return {
        (one.domain, one.name, one.since_version): one for one in every if one.since_version <= newest.get(one.domain, 1 << 30)
    }


@cache
def of_onnxruntime() -> dict[Key, Any]:
    return {(one.domain, one.name, one.since_version): one for one in onnxruntime_schemas.get_all_operator_schema()}


def said(schema: OpSchema) -> dict[str, Any]:
    """A schema as plain data; operands have their types in the place of variables' names."""
    inputs, outputs = schema.inputs, schema.outputs
    return {
        "inputs": [operand(one, schema) for one in inputs.formal],
        "input counts": (inputs.least, inputs.most),
        "outputs": [operand(one, schema) for one in outputs.formal],
        "output counts": (outputs.least, outputs.most),
        "attributes": dict(schema.attributes),
        "required": set(schema.required),
    }


def operand(one: Any, schema: OpSchema) -> tuple[Any, ...]:
    return (
        one.name,
        one.type if one.type in schema.types else format_kind(one.type),
        one.option,
        one.homogeneous,
        types_of(one, schema),
    )


def types_of(one: Any, schema: OpSchema) -> set[str]:
    return set(map(format_kind, schema.types_of(one)))


def wanted(schema: Any) -> dict[str, Any]:
    """The same of a schema of onnx or onnxruntime."""
    types = {one.type_param_str: {spelled(text) for text in one.allowed_type_strs} for one in schema.type_constraints}

    def operands(formal: Any) -> list[tuple[Any, ...]]:
        found = []
        for one in formal:
            type_ = one.type_str if hasattr(one, "type_str") else one.typeStr
            alike = one.is_homogeneous if hasattr(one, "is_homogeneous") else one.isHomogeneous
            found.append((one.name, type_, one.option.name.lower(), alike, types.get(type_, {type_})))
        return found

    return {
        "inputs": operands(schema.inputs),
        "input counts": (schema.min_input, min(schema.max_input, 1 << 30)),
        "outputs": operands(schema.outputs),
        "output counts": (schema.min_output, min(schema.max_output, 1 << 30)),
        "attributes": {name: one.type.name for name, one in schema.attributes.items()},
        "required": {name for name, one in schema.attributes.items() if one.required},
    }


def spelled(text: str) -> str:
    """onnx spells the values of maps without "tensor"."""
    text = text.replace(" ", "")
    if "map(" not in text:
        return text
    start, inside = text.split("map(")
    key, value = inside.rstrip(")").split(",")
    return f"{start}map({key},tensor({value}))" + ")" * start.count("(")


# onnx.txt


def test_the_file_is_what_the_generator_writes() -> None:
    if defs.onnx_opset_version() < limits()[""]:
        pytest.skip("the installed onnx is older than the one that the file was written with")
    text = FILE.read_text(encoding="utf-8")
    assert text == table(of_onnx().values(), text), "write it anew: ort_lite_transforms.schemas.generate"


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"])
def test_every_line_says_what_onnx_says(domain: str) -> None:
    keys = [key for key in of_onnx() if key[0] == domain]
    assert keys
    for key in keys:
        found = ONNX.schema(*key)
        assert (key, said(found), found.deprecated) == (key, wanted(of_onnx()[key]), of_onnx()[key].deprecated)
    assert not [pair for pair in keys_of(ONNX) if pair[0] == domain and pair not in {key[:2] for key in keys}]


def test_all_operators_of_the_standard_are_known() -> None:
    assert set(ONNX.complete()) == set(COMPLETE)
    assert ONNX.complete() == {domain: limits()[domain] for domain in COMPLETE}


def test_the_framework_knows_every_type() -> None:
    for file in FILES:
        for domain, op_type in keys_of(file):
            for since in file.versions(domain, op_type):
                for kinds in file.schema(domain, op_type, since).types.values():
                    names = {kind.replace("(", " ").replace(")", " ").replace(",", " ").split()[-1] for kind in kinds}
                    assert all(map(is_dtype, names)), (op_type, names)


# onnxruntime.txt


def mine(domain: str) -> list[Key]:
    return [(*pair, since) for pair in keys_of(OWN) if pair[0] == domain for since in OWN.versions(*pair)]


def test_operators_of_com_microsoft_are_declared_as_onnxruntime_has_them() -> None:
    keys = mine("com.microsoft")
    different = {key[1] for key in keys if said(OWN.schema(*key)) != wanted(of_onnxruntime()[key])}
    assert different == DIFFERENT.keys()


def test_operators_of_com_microsoft_that_are_not_declared_are_listed() -> None:
    theirs = {key[1] for key in of_onnxruntime() if key[0] == "com.microsoft"}
    listed = [name for names in UNDECLARED.values() for name in names.split()]
    assert sorted(listed) == sorted(theirs - {key[1] for key in mine("com.microsoft")})


def test_those_that_are_not_declared_have_no_kernels_for_cpus_in_onnxruntime() -> None:
    kernels = {one.op_name for one in onnxruntime_schemas.get_all_opkernel_def() if one.provider == "CPUExecutionProvider"}
    for reason, names in UNDECLARED.items():
        if reason.startswith(_DEVICES):
            assert [name for name in names.split() if name in kernels] == [], reason


@pytest.mark.parametrize("op_type", DIFFERENT)
def test_what_is_declared_otherwise_differs_in_types_that_are_added(op_type: str) -> None:
    schema, other = OWN.schema("com.microsoft", op_type, 1), of_onnxruntime()["com.microsoft", op_type, 1]
    theirs = {one.type_param_str: set(one.allowed_type_strs) for one in other.type_constraints}
    ours = {name: set(map(format_kind, kinds)) for name, kinds in schema.types.items()}
    assert ours != theirs and all(ours[name] >= theirs[name] for name in ours)
    assert said(schema)["attributes"] == wanted(other)["attributes"]


def test_every_operator_of_com_microsoft_that_runs_or_has_a_shape_rule_is_declared() -> None:
    runs = {*FAMILIES, *STRING_FAMILIES, *COMPLEX_FAMILIES}
    ruled = {key for family in RULES.values() for key in family.keys}
    wanted_keys = {key for key in runs | ruled if key[0] == "com.microsoft"}
    assert wanted_keys - set(keys_of(OWN)) == set()


def test_every_operator_that_runs_has_a_schema() -> None:
    known = {*keys_of(OWN), *keys_of(ONNX)}
    assert not {*FAMILIES, *STRING_FAMILIES, *COMPLEX_FAMILIES} - known


def test_operators_of_onnxruntime_in_the_domain_of_onnx() -> None:
    theirs = {key for key in of_onnxruntime() if key[0] == "" and key not in of_onnx()}
    ours = {key for key in mine("") if key not in of_onnx()}
    assert ours <= theirs
    assert {key[1] for key in theirs - ours if key[2] <= limits()[""]} == LEFT_OUT.keys()
    for key in ours:
        assert said(OWN.schema(*key)) == wanted(of_onnxruntime()[key])


# What onnxruntime tolerates


def one_node(node: onnx.NodeProto, opset: int, dims: Any = (1, 2, 2, 2), **more: Any) -> onnx.ModelProto:
    """x goes in, y comes out, both float32; `scale` is there too."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy")
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [1], [1.0])
    functions = more.pop("functions", [])
    graph = helper.make_graph(
        [node, *more.pop("then", [])],
        "g",
        [x] if "x" in node.input else [],
        [y],
        [scale] if "scale" in node.input else [],
        **more,
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports, functions=functions)


def constant(opset: int) -> onnx.ModelProto:
    return one_node(helper.make_node("Constant", [], ["y"], value_float=1.0), opset, ())


def declared_constant() -> onnx.ModelProto:
    value = helper.make_tensor("v", TensorProto.FLOAT, [2], [1.0, 2.0])
    wrong = helper.make_tensor_value_info("c", TensorProto.INT8, [2])
    then = [helper.make_node("Relu", ["c"], ["y"])]
    return one_node(helper.make_node("Constant", [], ["c"], value=value), 17, (2,), then=then, value_info=[wrong])


def declared_in_function() -> onnx.ModelProto:
    wrong = helper.make_tensor_value_info("c", TensorProto.DOUBLE, [2])
    nodes = [helper.make_node("Relu", ["a"], ["c"]), helper.make_node("Neg", ["c"], ["b"])]
    function = helper.make_function("local", "f", ["a"], ["b"], nodes, [helper.make_opsetid("", 17)], value_info=[wrong])
    return one_node(helper.make_node("f", ["x"], ["y"], domain="local"), 17, functions=[function])


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "attributes called __...": lambda: one_node(helper.make_node("Relu", ["x"], ["y"], __mark="of a tool"), 17),
    "GroupNormalization-18": lambda: one_node(
        helper.make_node("GroupNormalization", ["x", "scale", "scale"], ["y"], num_groups=1), 18
    ),
    "Constant-1": lambda: constant(7),
    "Constant-9": lambda: constant(9),
    "Constant-11": lambda: constant(11),
    "declared type of a Constant": declared_constant,
    "declared type in a function": declared_in_function,
}


@pytest.mark.parametrize("name", TOLERATED)
def test_what_we_tolerate_onnxruntime_does_too(name: str) -> None:
    proto = MODELS[name]().SerializeToString()
    onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    ort_lite.plan(proto)


def test_lines_in_the_place_of_those_of_onnx_are_tolerated_ones() -> None:
    assert {f"{key[1]}-{key[2]}" for key in mine("") if key in of_onnx()} == {name for name in TOLERATED if "-" in name}


# What transforms make


@pytest.mark.parametrize("seed", range(20))
def test_what_transforms_make_keeps_to_the_schemas(seed: int) -> None:
    signature, body = random_body(seed)
    found = model(signature, body, CONSTANTS, opset=24)
    transform(found, every_transform(), "all", rules=plugins.shape_rules())
    check_form(found, plugins.shape_rules())


@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "densenet121"])
def test_what_transforms_make_of_networks_keeps_to_the_schemas(name: str) -> None:
    found = load(Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx")
    transform(found, every_transform(), "all", rules=plugins.shape_rules())
    assert {"FusedConv", "FusedGemm"} & {node.op_type for node in found.graph}
    check_form(found, plugins.shape_rules())


def test_fused_nodes_of_every_type_keep_to_the_schemas() -> None:
    schemas = Schemas(FILES)
    for op_type, source in (("FusedConv", "Conv"), ("FusedGemm", "Gemm")):
        fused = OWN.schema("com.microsoft", op_type, 1)
        for since in ONNX.versions("", source):
            assert ONNX.schema("", source, since).types["T"] <= fused.types["T"], source
    assert schemas.complete("com.microsoft") is None


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file.path).name)
def test_traits_are_known_and_fit_the_operator(file: SchemaFile) -> None:
    for domain, op_type in file.operators():
        for since in file.versions(domain, op_type):
            schema = file.schema(domain, op_type, since)
            traits = parse_traits(schema.traits)
            x = Value("x", TensorType("float32", (2, 3, 4)))
            operations(
                Node(op_type, [x], [Value("y")], domain=domain, version=since), sizes_for({}, 1)
            )  # by a formula that exists
            newest = file.schema(domain, op_type, max(file.versions(domain, op_type)))
            places = [*traits.host, *(traits.random or ())]
            assert max(places, default=0) < max(newest.inputs.most, 1), op_type
            assert not (traits.free or traits.picks) or traits.moves, op_type
            assert not traits.typed or traits.typed in newest.attributes, op_type


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file.path).name)
def test_operators_of_a_domain_are_sorted_so_that_they_are_found(file: SchemaFile) -> None:
    for section in Path(file.path).read_text(encoding="utf-8").split("\n[")[1:]:
        domain, *lines = section.splitlines()
        names = [f"{line.partition(' ')[0].rpartition('-')[0]}-" for line in lines]
        assert names == sorted(names), domain
