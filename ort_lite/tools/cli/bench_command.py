"""`ort-lite bench MODEL.onnx --against onnxruntime`: time a model, a folder of models or one operator.

With --nodes it also shows where the time goes and how close the machine is to its peak, with --candidates what each kernel takes that
can compute a node. docs/performance.md describes the measurement.
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ort_lite._version import __version__
from ort_lite.compat.inference_session import InferenceSession
from ort_lite.errors import InvalidArgument, InvalidGraph, OrtLiteError, describe, format_error
from ort_lite.native.calibration import read_factors, write_factors
from ort_lite.native.cpu import runnable
from ort_lite.record import asdict
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.benchmark.benchmark_report import milliseconds, row_of, show
from ort_lite.tools.cli.benchmark.candidates import NodeCandidates, factors_of, measure_candidates, show_candidates
from ort_lite.tools.cli.benchmark.comparison import Result, compare_runs, geometric_mean, time_runs
from ort_lite.tools.cli.benchmark.concurrent_load import Load, measure_load
from ort_lite.tools.cli.benchmark.interleaved_runs import Run
from ort_lite.tools.cli.benchmark.machine_peaks import cores, cpu, peaks
from ort_lite.tools.cli.benchmark.nodes import profile
from ort_lite.tools.cli.benchmark.operator import attribute_of, operator_model, shape_of
from ort_lite.tools.cli.benchmark.rivals import Model, Rival, rival
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import default_sizes, dims_of, dims_of_feeds, feeds_of, lengths
from ort_lite.tools.cli.printing import json_text, many, print_json, print_text


def main(arguments: Namespace) -> ExitStatus:
    """Run `ort-lite bench`. Returns MODEL if one of several models failed, and FINDINGS if results differ from a rival's."""
    try:
        return _bench(arguments)
    except InvalidGraph as error:
        if not arguments.operator:
            raise
        raise InvalidArgument(
            f"--operator {arguments.operator}: {describe(error)}"
        ) from error  # its model is made of arguments


def _bench(arguments: Namespace) -> ExitStatus:
    cases = _cases(arguments)
    arguments.threads = 1 if arguments.candidates or arguments.calibrate else arguments.threads or cores()
    against = rival(arguments.against) if arguments.against else None
    name = cpu()[0]
    versions = {"ort_lite": __version__, **({against.name: against.version} if against else {})}
    report: dict[str, Any] = {"cpu": name, "threads": arguments.threads, "versions": versions}
    heading = f"{name}, {many(arguments.threads, 'thread')}, {', '.join(' '.join(pair) for pair in versions.items())}"
    say = _silent if arguments.json == "-" else _Said(heading)
    if arguments.candidates or arguments.calibrate:
        report |= _candidates(arguments, cases, say)
    elif against or not arguments.nodes:
        report |= _times(arguments, cases, against, say)
    if arguments.nodes:
        report["profile"] = _nodes(arguments, cases, say)
    if arguments.json == "-":
        print_json("bench", report)
    elif arguments.json:
        Path(arguments.json).write_text(json_text("bench", report) + "\n", encoding="utf-8")
    return _status(report.get("models", []))


def _status(models: Sequence[Mapping[str, Any]]) -> ExitStatus:
    if any(model["failed"] for model in models):
        return ExitStatus.MODEL
    return ExitStatus.FINDINGS if any(model["differences"] for model in models) else ExitStatus.DONE


class _Said:
    """Prints lines, the heading before the first: where the arguments are wrong there is none."""

    def __init__(self, heading: str) -> None:
        self._heading = heading

    def __call__(self, text: object) -> None:
        if self._heading:
            print_text(self._heading)
            self._heading = ""
        print_text(text)


def _silent(text: object) -> None:
    """Print nothing, for --json -, which prints JSON alone."""


def _cases(arguments: Namespace) -> dict[str, Model]:
    """Return what to time, by name."""
    if (arguments.model is None) == (arguments.operator is None):
        raise InvalidArgument("expected a model, a folder of models, or --operator, and only one of them")
    if arguments.seconds < 0:
        raise InvalidArgument(f"--seconds {arguments.seconds:g}: expected 0 or more")
    if arguments.concurrency < 0:
        raise InvalidArgument(f"--concurrency {arguments.concurrency}: expected a number of callers, 0 for none")
    if arguments.operator:
        shapes = [shape_of(text) for text in arguments.shape]
        attributes = dict(map(attribute_of, arguments.attribute))
        data = operator_model(arguments.operator, shapes, arguments.dtype or ["float32"], attributes, arguments.constant)
        name, arguments.shape = " ".join([arguments.operator, *arguments.shape]), []
        return {name: data}
    path = Path(arguments.model)
    if not path.is_dir():
        return {path.name: str(path)}
    if arguments.nodes:
        raise InvalidArgument(f"--nodes: {path} is a folder, expected one model")
    return {Path(file).relative_to(path).as_posix(): file for file in session_arguments.model_paths([str(path)])}


# Times


def _times(arguments: Namespace, cases: Mapping[str, Model], against: Rival | None, say: Any) -> dict[str, Any]:
    """Print one line per model. If one of several models fails, its line says so."""
    results = []
    sets = arguments.shapes or [""]
    for (name, source), shapes in product(cases.items(), sets):
        title = f"{name} {shapes}".rstrip()
        try:
            found = _time(_with_shapes(arguments, shapes), title, source, against, say)
        except (OrtLiteError, OSError) as error:
            if len(cases) * len(sets) == 1:
                raise
            found = Result(title, failed=f"ort_lite: {format_error(error)}")
        if found.failed and len(cases) * len(sets) == 1:
            raise InvalidArgument(f"{name}: {found.failed}")
        results.append(found)
        for line in lines(found, arguments.against or ""):
            say(line)
    mean = geometric_mean(results)
    if mean is not None and len(results) > 1:
        counted = sum(1 for result in results if result.ratio and not result.differences)
        say(f"geometric mean of {counted} ratios: {mean:.2f}")
    return {"models": [result.as_dict() for result in results], "geometric_mean": mean}


def _with_shapes(arguments: Namespace, shapes: str) -> Namespace:
    """Return the arguments with one set of --shapes: shapes of inputs, separated by spaces."""
    return Namespace(**{**vars(arguments), "shape": [*arguments.shape, *shapes.split()]})


def _time(arguments: Namespace, name: str, source: Model, against: Rival | None, say: Any) -> Result:
    """Time a case. Errors of ort_lite are raised; if the rival fails, the result says so."""
    with session_arguments.session(arguments, source) as session:
        feeds = _feeds(arguments, session, say)
        ours = partial(session.run, None, feeds)
        if against is None:
            found = time_runs(name, ours, arguments.seconds)
            return found.replace(loads=_loads(arguments, {"ort_lite": ours}))
        outputs = [output.name for output in session.get_outputs()]
        ours()
        try:
            theirs, control = (against.open(source, arguments.threads, feeds) for _ in range(2))
            theirs()
        except Exception as error:  # noqa: BLE001  whatever another runtime raises
            return Result(name, failed=f"{against.name}: {format_error(error)}")
        found = compare_runs(name, ours, theirs, control, outputs, against.name, arguments.seconds)
        return found.replace(loads=_loads(arguments, {"ort_lite": ours, against.name: theirs}))


def _loads(arguments: Namespace, runs: Mapping[str, Run]) -> dict[str, Load]:
    """Measure each runtime at the concurrency that --concurrency asks for."""
    if not arguments.concurrency:
        return {}
    found = measure_load(list(runs.values()), arguments.concurrency, arguments.seconds)
    return dict(zip(runs, found, strict=True))


def lines(result: Result, rival: str) -> Iterator[str]:
    """Return the report on a model, line by line."""
    if result.failed:
        yield f"{result.name}  {result.failed.splitlines()[0]}"
        return
    assert result.ours is not None
    text = f"{result.name}  ort_lite {milliseconds(result.ours)}"
    if result.theirs is not None:
        text += f"  {rival} {milliseconds(result.theirs)}  ratio {result.ratio:.2f}  ({rival} to itself {result.noise:.2f})"
    yield text
    if result.noisy:
        yield f"  noise: {rival} is {abs((result.noise or 1) - 1):.0%} off from itself; the ratio is no better known than that"
    for runtime, load in [*result.runs.items(), *result.loads.items()]:
        yield f"  {many(load.callers, 'caller')}, {runtime}: {load}"
    yield from (f"  results differ: {line}" for line in result.differences)


def _feeds(arguments: Namespace, session: InferenceSession, say: Any) -> dict[str, Any]:
    """Return the feeds. Free dimensions that are sequence lengths are longer than 1, because one token is not a typical load."""
    inputs = session.get_inputs()
    sizes = lengths(inputs, dims_of(arguments))
    chosen = default_sizes(arguments, inputs) | sizes
    if chosen:
        one = len(chosen) == 1
        free = ", ".join(f"{name} is set to {size}" for name, size in chosen.items())
        say(
            f"  free dimension{'' if one else 's'} {free}: use --dim NAME=N or --shape for {'another size' if one else 'others'}"
        )
    return feeds_of(arguments, inputs, sizes, known=not Path(arguments.model or "").is_dir())


# Nodes


def _nodes(arguments: Namespace, cases: Mapping[str, Model], say: Any) -> dict[str, Any]:
    ((_, source),) = cases.items()
    with session_arguments.session(arguments, source) as session:
        found = profile(session, _feeds(arguments, session, say), arguments.seconds)
    limits = peaks(target=session_arguments.options(arguments).config("ort_lite.target", "host"))
    rows = [row_of(line, limits, arguments.threads) for line in found.lines]
    if arguments.json != "-":
        show(found, limits, rows, arguments.top, say)
    return {"seconds": found.seconds, "runs": found.runs, "peaks_of_a_core": asdict(limits), "nodes": rows}


# Candidates


def _candidates(arguments: Namespace, cases: Mapping[str, Model], say: Any) -> dict[str, Any]:
    """Time the candidates of each node with one thread; for --calibrate, correct the factors of predicted costs."""
    if arguments.providers or arguments.against or arguments.nodes:
        raise InvalidArgument(
            "--candidates and --calibrate measure the CPU provider alone: without --providers, --against and --nodes"
        )
    target = runnable(session_arguments.options(arguments).config("ort_lite.target", "host"))
    found: dict[str, list[NodeCandidates]] = {}
    for name, source in cases.items():
        with session_arguments.session(arguments, source) as session:
            feeds = _feeds(arguments, session, say)
            sizes = dims_of_feeds(session.get_inputs(), feeds)
        found[name] = measure_candidates(partial(_pinned_session, arguments, source, sizes), feeds, arguments.seconds)
        if arguments.json != "-":
            say(name)
            show_candidates(found[name], arguments.top, say)
    report: dict[str, Any] = {"candidates": {name: [row.as_dict() for row in rows] for name, rows in found.items()}}
    if arguments.calibrate:
        known, measured = read_factors(target), factors_of([row for rows in found.values() for row in rows])
        report["factors"] = known | {name: known.get(name, 1.0) * factor for name, factor in measured.items()}
        write_factors(target, report["factors"])
        say(f"stored {many(len(report['factors']), 'factor')} of predicted costs for later sessions with {target.name}")
    return report


def _pinned_session(arguments: Namespace, source: Model, sizes: Mapping[str, int], pins: Mapping[str, str]) -> InferenceSession:
    options = session_arguments.options(arguments)
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    if pins:
        options.add_session_config_entry("ort_lite.kernels", json.dumps(dict(pins)))
    return InferenceSession(source, options, providers=["CPUExecutionProvider"])
