"""One mutant, from its number to a verdict, in this process: which may die of it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx

from ort_lite import GraphOptimizationLevel, InferenceSession, RunOptions, SessionOptions
from ort_lite.errors import CompileError, OrtLiteError
from tests.fuzz.drafts import Draft
from tests.fuzz.guarded import GuardError, check_written, forget, guarded
from tests.fuzz.known import difference
from tests.fuzz.mutants import mutant
from tests.generated.oracles import of_reference, within

OK, REFUSED, RAISED, MEMORY, WRONG, ACCESS = "ok", "refused", "raised", "memory", "wrong", "access"
UNSAYABLE = "unsayable"
SIGNAL, HANG = "signal", "hang"
STATUSES = {
    OK: "ran; onnx.reference gives the same, or does not run it",
    REFUSED: "an OrtLiteError, when loaded or run",
    RAISED: "another Python error",
    MEMORY: "a MemoryError of Python's own",
    WRONG: "ran, and onnx.reference gives something else",
    ACCESS: "wrote to what it only may read, or depends on what nobody wrote",
    SIGNAL: "the process died",
    HANG: "no answer in time",
    UNSAYABLE: "onnx's helpers make no model of it",
}


ENDLESS_S = 2.0
"""When a run is told to end: that a Loop goes on for ever is what its model says, that it cannot be stopped would be a hang."""


class Verdict(NamedTuple):
    """What came of a mutant. `named`: the refusal says which node or value it is about. `reference`: "ran", or why not."""

    number: int
    operator: str
    status: str
    detail: str
    error: str = ""
    named: bool = True
    reference: str = "died"


def judge(number: int) -> Iterator[Verdict]:
    """First without onnx.reference, of which some mutants are the end, then with it."""
    draft = mutant(number)
    try:
        yield from _judged(number, draft)
    except GuardError as error:
        yield Verdict(number, label(draft), ACCESS, str(error))
    finally:
        gc.collect(0)
        forget()


def label(draft: Draft) -> str:
    domain, op_type, version = draft.key
    return f"{domain}{'.' if domain else ''}{op_type}-{version}"


def _judged(number: int, draft: Draft) -> Iterator[Verdict]:
    who = label(draft)
    try:
        model, feeds = draft.model(), [draft.feeds(), *([] if draft.later is None else [draft.later])]
        data = model.SerializeToString()
    except Exception as error:  # noqa: BLE001  onnx's helpers raise all kinds
        yield Verdict(number, who, UNSAYABLE, f"{type(error).__name__}: {error}")
        return
    results = runs(draft, data, feeds)
    verdicts = [_without_reference(number, who, got, model) for got in results]
    yield _worst(verdicts)
    for k, (got, feed) in enumerate(zip(results, feeds, strict=False)):
        want = of_reference(model, feed)
        verdicts[k] = verdicts[k]._replace(reference=want[:200] if isinstance(want, str) else "ran")
        if not isinstance(got, list) or not isinstance(want, list) or not draft.comparable:
            continue
        if told := difference(model, feed, got, want):
            verdicts[k] = verdicts[k]._replace(status=WRONG, detail=told)
    yield _worst(verdicts)


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Of the runs of one session."""
    return next((verdict for verdict in verdicts if verdict.status not in (OK, REFUSED)), verdicts[0])


def _without_reference(number: int, who: str, got: list[Any] | Exception, model: onnx.ModelProto) -> Verdict:
    if isinstance(got, Exception):
        return refusal(number, who, got, any(name in str(got) for name in names(model.graph)))
    return Verdict(number, who, OK, "")


def runs(draft: Draft, data: bytes, feeds: Sequence[dict[str, Any]]) -> list[list[Any] | Exception]:
    """What a session between walls computes of each feed, or why it does not; one error where there is no session."""
    options, level = SessionOptions(), GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if draft.optimised else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = draft.threads
    with warnings.catch_warnings(), np.errstate(all="ignore"), guarded():
        warnings.simplefilter("ignore")  # NumPy's, of the values of mutants
        try:
            session = InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001  which kind it is, is the verdict
            return [error]
        with session:
            return [_run(session, feed) for feed in feeds]


def _run(session: InferenceSession, feeds: dict[str, Any]) -> list[Any] | Exception:
    run = RunOptions()
    try:
        with within(ENDLESS_S, partial(setattr, run, "terminate", True)):
            outputs = session.run(None, feeds, run)
        check_written(outputs)
        return outputs
    except Exception as error:  # noqa: BLE001  which kind it is, is the verdict
        return error


def refusal(number: int, who: str, error: Exception, named: bool) -> Verdict:
    """REFUSED for an error of ort_lite's own. Where it only wraps another and says nothing of the node, the other one counts."""
    wraps = error.__cause__ is not None and (isinstance(error, CompileError) or not named)
    cause = error.__cause__ if wraps and error.__cause__ is not None else error
    kind = type(cause).__name__
    if isinstance(cause, OrtLiteError):
        return Verdict(number, who, REFUSED, str(error), kind, named)
    return Verdict(number, who, MEMORY if isinstance(cause, MemoryError) else RAISED, f"{cause} {where(cause)}", kind, named)


def names(graph: onnx.GraphProto) -> set[str]:
    """How errors may name what is in a graph: nodes by operator and name or outputs, values in quotes; graphs inside as well."""
    found = {f"'{value.name}'" for value in (*graph.input, *graph.output, *graph.initializer)}
    found.add("the model imports opset ")  # what is wrong there is no node's
    for node in graph.node:
        found.update((f"{node.op_type} '", f"{node.op_type} with output"))
        found.update([f" '{node.name}_"] if node.name else [])  # transforms name what they make of a node after it
        found.update(f"'{name}'" for name in (*node.input, *node.output) if name)
        found.update(name for one in node.attribute if one.type == onnx.AttributeProto.GRAPH for name in names(one.g))
    return found


def where(error: BaseException) -> str:
    """The innermost line."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    return f"({'/'.join(traceback.tb_frame.f_code.co_filename.split('/')[-3:])}:{traceback.tb_lineno})"
