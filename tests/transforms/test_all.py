"""All transforms together: random graphs compute the same at every level, and the list is complete."""

import random
from importlib import import_module
from pathlib import Path

import pytest

import ort_lite_transforms
from ort_lite.plugins import plugins
from ort_lite.transform import GraphPass, LocalRule
from ort_lite.transform.transform import transform
from tests.text_graphs import every_transform, model, same_outputs, structure

CONSTANTS = """<float[4,4] w = {1, -1, 2, 0.5, 0, 1, 0, -2, 1, 1, 0.5, 0, 2, 0, 0, 1}, float[4] row = {1, 2, -1, 0.5},
  float[4,1] column = {1, 2, 3, 4}, float one = {1}, float[1] zero = {0}, float zero0 = {0}, float three = {3}, float six = {6},
  float half = {0.5}, float root = {1.4142135}, float eps = {0.01}, float two = {2}, int64[1] last = {-1},
  int64[2] flat = {2, -1}, int64[2] square = {4, 4}, int64[1] from = {0}, int64[1] to = {9}, bool yes = {1}>"""

# Each takes matrices {a}, {b} of 4 by 4 and makes {z} of the same shape; {n} is a number of its own.
STEPS = [
    "{z} = Identity({a})",
    "{z} = Transpose({a})",
    "{z} = Relu({a})",
    "{z} = Sigmoid({a})",
    "{z} = Neg({a})",
    "{z} = Add({a}, {b})",
    "{z} = Mul({a}, {b})",
    "{z} = Sub({a}, {b})",
    "{z} = Sum({a}, {b})",
    "{z} = Add({a}, row)",
    "{z} = Mul(column, {a})",
    "{z} = Add({a}, zero)",
    "{z} = Mul({a}, one)",
    "{z} = Slice({a}, from, to)",
    "c{n} = Cast<to=11>({a}) {z} = Cast<to=1>(c{n})",
    "c{n} = Cast<to=10>({a}) {z} = Cast<to=1>(c{n})",
    "r{n} = Reshape({a}, flat) {z} = Reshape(r{n}, square)",
    "s{n} = Shape({a}) {z} = Reshape({b}, s{n})",
    "m{n} = MatMul({a}, w) {z} = Add(m{n}, row)",
    "g{n} = Gemm<alpha=0.5>({a}, {b}) {z} = Add(row, g{n})",
    "g{n} = Gemm({a}, w, row) {z} = Relu(g{n})",
    "g{n} = Sigmoid({a}) {z} = Mul(g{n}, {a})",
    "p{n} = Add({a}, three) q{n} = Clip(p{n}, zero0, six) o{n} = Mul({a}, q{n}) {z} = Div(o{n}, six)",
    "d{n} = Div({a}, root) e{n} = Erf(d{n}) f{n} = Add(e{n}, one) h{n} = Mul({a}, f{n}) {z} = Mul(h{n}, half)",
    """v{n} = ReduceMean({a}, last) d{n} = Sub({a}, v{n}) e{n} = Pow(d{n}, two) f{n} = ReduceMean(e{n}, last)
       g{n} = Add(f{n}, eps) h{n} = Sqrt(g{n}) i{n} = Div(d{n}, h{n}) j{n} = Mul(i{n}, row) {z} = Add(j{n}, row)""",
    "l{n}, r{n} = Split<axis=1, num_outputs=2>({a}) {z} = Concat<axis=1>(r{n}, l{n})",
    """{z} = If (yes) <then_branch = t{n} () => (float[4,4] p{n}) {{ p{n} = Exp(w) }},
                       else_branch = e{n} () => (float[4,4] q{n}) {{ q{n} = Neg({a}) }}>""",
    """{z} = If (flag) <then_branch = t{n} () => (float[4,4] p{n}) {{ u{n} = Transpose({a})
                            v{n} = Transpose(u{n}) p{n} = Tanh(v{n}) }},
                        else_branch = e{n} () => (float[4,4] q{n}) {{ q{n} = Identity({b}) }}>""",
]


def random_body(seed: int) -> tuple[str, str]:
    """(signature, body) with three outputs."""
    rng = random.Random(seed)
    known, lines = ["x", "y", "w"], []
    for number in range(14):
        a, b = rng.choice(known[-5:]), rng.choice(known[-5:])
        lines.append(rng.choice(STEPS).format(a=a, b=b, z=f"k{number}", n=number))
        known.append(f"k{number}")
    outputs = ", ".join(f"float[4,4] {name}" for name in ("k4", "k9", "k13"))
    return f"(float[4,4] x, float[4,4] y, bool flag) => ({outputs})", f"{{ {' '.join(lines)} }}"


@pytest.mark.slow
@pytest.mark.parametrize("level", ["disable_all", "basic", "all"])
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_compute_the_same(seed: int, level: str) -> None:
    signature, body = random_body(seed)
    original, changed = (model(signature, body, CONSTANTS, opset=24) for _ in range(2))
    transform(changed, every_transform(), level, rules=plugins.shape_rules())
    assert [value.name for value in changed.graph.outputs] == ["k4", "k9", "k13"]
    same_outputs(original, changed, 2e-5)


@pytest.mark.parametrize("seed", range(10))
def test_a_second_run_finds_nothing(seed: int) -> None:
    signature, body = random_body(seed)
    found = model(signature, body, CONSTANTS, opset=24)
    transform(found, every_transform(), "all", rules=plugins.shape_rules())
    before = structure(found.graph)
    report = transform(found, every_transform(), "all", rules=plugins.shape_rules())
    assert report.changes == () and structure(found.graph) == before


def test_every_transform_is_listed_once() -> None:
    before, fusions = ([found.name for found in listed] for listed in (plugins.transforms(), plugins.fusions()))
    assert len(set(before)) == len(before) and len(set(fusions)) == len(fusions)
    files = Path(ort_lite_transforms.__file__).parent.glob("*.py")
    modules = [import_module(f"ort_lite_transforms.{file.stem}") for file in files if file.stem != "__init__"]
    written = {v.name for module in modules for v in vars(module).values() if isinstance(v, LocalRule | GraphPass)}
    assert len(set(written)) == len(written) and {*before, *fusions} == set(written)
