"""Lower models for a device without having it: `python -m ort_lite_xla.lower MODEL.onnx|FOLDER ...`.

Prints a line for each model: the nodes that XLA runs, in how many partitions, the operations that they become and the seconds
that this took, or why it fails. Programs are lowered to StableHLO for the device, but compiled only where there is one. If the
rank of an operand or the branch of an If is unknown, the model runs on JAX's CPU device, and the programs get the shapes and
branches of that run.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

import ort_lite
from ort_lite import dtypes
from ort_lite.errors import OrtLiteError
from ort_lite.graph import Value
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.shapes import as_symbol, evaluate, symbols
from ort_lite_xla.contents import collect_contents, constants_of
from ort_lite_xla.provider import XLAExecutionProvider
from ort_lite_xla.trace import Known, TracedValues, trace
from ort_lite_xla.weights import EMBEDDED

CPU = "CPUExecutionProvider"
PLATFORMS = ("cuda", "rocm", "tpu", "cpu")
FEEDS = "feeds.npz"
"""A file beside a model, with its inputs by name."""


class Lowered(NamedTuple):
    """The nodes of a model that were lowered, of how many, in how many partitions, and the operations that they became.

    `unreached` are the partitions that did not run with the feeds, so that nobody knows their shapes.
    """

    nodes: int
    of: int
    partitions: int
    operations: int
    unreached: int = 0


class Recorder(XLAExecutionProvider):
    """The provider on JAX's CPU device, which remembers the operands that partitions had in their last runs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen: dict[Partition, list[Any]] = {}

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        """Compile partitions to programs that are remembered."""
        return [partial(self._run, one, program) for one, program in zip(partitions, super().compile(partitions), strict=True)]

    def _run(self, partition: Partition, program: CompiledPartition, inputs: Sequence[Any]) -> Any:
        self.seen[partition] = list(inputs)
        return program(inputs)


def operands_of(partition: Partition) -> list[Value]:
    """Return the constants that a program of the partition gets as operands, before the partition's inputs."""
    return [value for value in constants_of(partition) if value.constant is not None and value.constant.nbytes > EMBEDDED]


def jax_function(partition: Partition, known: Known) -> Callable[..., list[Any]]:
    """Return a function of `operands_of(partition)` and the partition's inputs, which JAX can trace. It returns the outputs.

    `known` has the contents of the host values among the inputs, on which shapes and branches depend.
    """
    needed, values = collect_contents(partition.nodes), (*operands_of(partition), *partition.inputs)
    fixed = {value: _contents(value, known) for value in _host_inputs(partition)}

    def function(*operands: Any) -> list[Any]:
        found = TracedValues(dict(fixed), dict(zip(values, operands, strict=True)), {})
        trace(partition.nodes, found, needed, {}, partition.provider.name)
        return [found.data[value] if value in found.data else found.known[value] for value in partition.outputs]

    return function


def lower(
    partition: Partition,
    sizes: Mapping[str, int],
    known: Known,
    platform: str,
    precision: str = "highest",
    shapes: Mapping[Value, tuple[int, ...]] = MappingProxyType({}),
) -> str:
    """Return the StableHLO of a partition for a platform, with these sizes of open dimensions. `known`: see `jax_function`.

    `shapes` has the shapes of inputs for which sizes are not enough. Raises RuntimeException naming the node that does not fit,
    and KeyError for a dimension without a size, or contents that are not known.
    """
    values = (*operands_of(partition), *partition.inputs)
    operands = [
        jax.ShapeDtypeStruct(shapes[v] if v in shapes else _shape(v, sizes), dtypes.to_numpy(v.dtype or "float32"))
        for v in values
    ]
    with jax.enable_x64(True), jax.default_matmul_precision(precision):
        function = jax.jit(jax_function(partition, known), keep_unused=True)
        return str(function.trace(*operands).lower(lowering_platforms=(platform,)).as_text())


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    shape = value.shape if value.constant is None else value.constant.shape
    if shape is None:
        raise KeyError(f"the rank of {value.name!r}")
    return tuple(evaluate(dim, sizes) for dim in shape)


def lower_model(path: Path, platform: str, dims: Mapping[str, int], size: int) -> Lowered:
    """Lower all partitions of a model. Open dimensions have the sizes of `feeds.npz` beside it, those of `dims`, or `size`."""
    plan = ort_lite.plan(str(path), [XLAExecutionProvider, CPU])
    feeds = dict(np.load(path.parent / FEEDS)) if (path.parent / FEEDS).is_file() else {}
    partitions = _own(plan)
    sizes = dict.fromkeys((found.name for one in partitions for v in one.inputs for found in symbols(v.shape or ())), size)
    sizes |= sizes_of(plan.assignment.graph.inputs, feeds) | dict(dims)
    known = {value: np.asarray(feeds[value.name]) for value in plan.assignment.graph.inputs if value.name in feeds}
    unknown = any(value.shape is None for one in partitions for value in one.inputs)
    if feeds and (unknown or any(value not in known for one in partitions for value in _host_inputs(one))):
        return _lower_run(path, platform, feeds)
    texts = [lower(one, sizes, known, platform) for one in partitions]
    return _count(plan, texts)


def _lower_run(path: Path, platform: str, feeds: Mapping[str, Any]) -> Lowered:
    """Run a model on JAX's CPU device, and lower its partitions with the shapes and contents that their inputs have there."""
    session = ort_lite.InferenceSession(str(path), providers=[Recorder, CPU])
    session.run(None, {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in feeds.items()})
    plan = session.explain()
    partitions = _own(plan)
    texts = []
    for one in partitions:
        inputs = one.provider.seen.get(one) if isinstance(one.provider, Recorder) else None
        if inputs is not None:
            given = dict(zip(one.inputs, inputs, strict=True))
            known = {value: np.asarray(given[value]) for value in one.inputs if value in one.host_values}
            texts.append(lower(one, {}, known, platform, shapes={value: x.shape for value, x in given.items()}))
    return _count(plan, texts, len(partitions) - len(texts))


def _host_inputs(partition: Partition) -> list[Value]:
    return [value for value in partition.inputs if value in partition.host_values]


def _contents(value: Value, known: Known) -> Any:
    if value not in known:
        raise KeyError(f"the contents of {value.name!r}")
    return known[value]


def _own(plan: ort_lite.Explanation) -> list[Partition]:
    return [one for one in plan.assignment.partitions if one.provider.name == XLAExecutionProvider.name]


def _count(plan: ort_lite.Explanation, texts: Sequence[str], unreached: int = 0) -> Lowered:
    nodes = [place.provider for place in plan.assignment.placements.values()]
    operations = sum(text.count("stablehlo.") + text.count("chlo.") for text in texts)
    return Lowered(nodes.count(XLAExecutionProvider.name), len(nodes), len(texts) + unreached, operations, unreached)


def sizes_of(inputs: Iterable[Value], feeds: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of the dimensions of feeds that have names of their own."""
    found: dict[str, int] = {}
    for value in inputs:
        if value.name in feeds and value.shape is not None:
            for dim, size in zip(value.shape, feeds[value.name].shape, strict=True):
                name = None if isinstance(dim, int) else as_symbol(dim)
                if name is not None:
                    found[name.name] = size
    return found


def models_in(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the models, those in folders in order of their paths."""
    for path in paths:
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def describe(path: Path, platform: str, dims: Mapping[str, int], size: int) -> tuple[bool, str]:
    """Lower a model. Return True if it could be, and the line that says so or why not."""
    begin = perf_counter()
    try:
        found = lower_model(path, platform, dims, size)
    except (OrtLiteError, KeyError, NotImplementedError) as error:
        return False, f"{path}: not lowered: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    counts = f"{found.nodes} of {found.of} nodes, {found.partitions} partitions, {found.operations} operations"
    if found.unreached:
        counts += f", {found.unreached} partitions not lowered because the feeds do not reach them"
    return True, f"{path}: {counts}, {perf_counter() - begin:.1f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Lower the models that the command line names. Return 1 if one of them cannot be lowered."""
    parser = argparse.ArgumentParser(prog="python -m ort_lite_xla.lower", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="MODEL.onnx|FOLDER")
    parser.add_argument("--platform", choices=PLATFORMS, default="cuda")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N", help="the size of an open dimension")
    parser.add_argument("--size", type=int, default=8, help="the size of all others (default: 8)")
    given = parser.parse_args(arguments)
    dims = {name: int(size) for name, _, size in (text.partition("=") for text in given.dim)}
    done = []
    for path in models_in(given.paths):
        fine, line = describe(path, given.platform, dims, given.size)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        done.append(fine)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
