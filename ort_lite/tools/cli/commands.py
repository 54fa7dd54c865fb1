"""The commands of the command line: a summary, arguments and examples of each."""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from ort_lite.tools.cli.arguments import add_feeds, add_model, add_output, add_session, add_sizes

SHELLS = ("bash", "zsh", "fish", "tcsh")
STAGES = ("load", "transform", "partition", "compile", "plan")


class Command(NamedTuple):
    """A command: its name, its summary without a full stop, a function that adds its arguments to a parser, and examples."""

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    examples: tuple[str, ...]


def _add_run(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("--output", metavar="FILE.npz", help="write the outputs to a file")
    parser.add_argument("--trace", metavar="FILE.json", help="write a trace of the session and the run, for Perfetto")
    add_output(parser)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    references = ("CPUExecutionProvider", "onnxruntime", "openvino")
    parser.add_argument(
        "--against", choices=references, default=references[0], help="the reference (default: CPUExecutionProvider)"
    )
    parser.add_argument("--rtol", type=float, metavar="R", help="relative tolerance (default: by element type)")
    parser.add_argument("--atol", type=float, metavar="A", help="absolute tolerance (default: by element type)")
    add_output(parser)


def _add_dump(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("--stage", choices=STAGES, default="partition", help="the last stage to run (default: partition)")
    add_output(parser)


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_sizes(parser)
    add_output(parser)


def _add_check(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("--no-run", action="store_true", help="load and partition the model only: compile and run nothing")
    add_output(parser)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL.onnx", help="the ONNX model, a file")
    parser.add_argument(
        "--dim", metavar="NAME=N", action="append", default=[], help="the size of a free dimension of the inputs (default: 1)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=0.0,
        metavar="S",
        help="time limit in seconds for the analysis of shapes (default: none)",
    )
    add_output(parser)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("--top", type=int, default=40, metavar="N", help="tensors to show, 0 for all (default: 40)")
    add_output(parser)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="seconds of measuring, about (default: 2)")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="nodes to show, 0 for all (default: 20)")
    parser.add_argument("--trace", metavar="FILE.json", help="write a trace of a session's creation and two runs, for Perfetto")
    add_output(parser)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--trace", action="store_true", help="show what the creation of the session did and how long it took")
    parser.add_argument(
        "--kernels", action="store_true", help="show each node's kernels and why other candidates were not taken"
    )
    add_output(parser)


def _add_view(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: the model's name, in this folder)")
    parser.add_argument(
        "--format",
        choices=("html", "model-explorer"),
        default="html",
        help="a page, or JSON for Model Explorer (default: html)",
    )
    parser.add_argument("--annotate", metavar="FILE.onnx", help="also write the model with each node's provider, for Netron")
    parser.add_argument("--compare", metavar="C,D", help="other providers, to compare with --providers")
    parser.add_argument("--no-run", action="store_true", help="do not run the model: the page has no times")
    parser.add_argument("--profile", metavar="FILE.json", help="take the times of nodes from this trace of a run")
    add_output(parser)


def _add_desk(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", default=["."], metavar="FOLDER|MODEL.onnx", help="models to choose from (default: this folder)"
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port to listen on (default: any free one)")
    parser.add_argument("--no-open", action="store_true", help="print the address, but open no browser")
    add_session(parser)
    add_feeds(parser)
    add_output(parser)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    models = "models, or folders with NAME.onnx and NAME/VERSION/model.onnx"
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx|FOLDER", help=models)
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="the address to listen on, 0.0.0.0 for all (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="HTTP port, 0 for any free one (default: 8000)")
    parser.add_argument("--grpc-port", type=int, default=8001, metavar="N", help="gRPC port (default: 8001)")
    parser.add_argument("--no-grpc", action="store_true", help="serve HTTP only")
    batch = "rows of requests that are run together, if the model treats rows independently (default: 1)"
    parser.add_argument("--max-batch", type=int, default=1, metavar="N", help=batch)
    parser.add_argument(
        "--max-wait-ms", type=float, default=0.0, metavar="MS", help="time that a request waits for others (default: 0)"
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="concurrent runs of a model (default: 2)")
    parser.add_argument("--queue", type=int, default=256, metavar="N", help="requests that may wait for a model (default: 256)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds until a request fails (default: 30)")
    parser.add_argument("--max-request-mb", type=int, default=64, metavar="N", help="MiB of a request (default: 64)")
    add_session(parser)
    add_output(parser, json=False)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL.onnx|FOLDER", help="an ONNX model, or a folder of models")
    parser.add_argument("--operator", metavar="NAME", help="measure a node of this operator instead of a model")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NxM", help="shape of the operator's next input; of a model: NAME=NxM"
    )
    parser.add_argument(
        "--dtype", action="append", default=[], metavar="T", help="element type of all inputs, or of the next one (float32)"
    )
    parser.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE", help="an attribute of the operator")
    parser.add_argument(
        "--constant", action="append", default=[], type=int, metavar="K", help="make input K, from 0, a constant"
    )
    parser.add_argument("--against", choices=("onnxruntime", "openvino"), help="an installed runtime to compare with")
    parser.add_argument(
        "--shapes", action="append", default=[], metavar="'A=NxM B=N'", help="a set of shapes; each set is measured"
    )
    parser.add_argument(
        "--seconds", "--duration", type=float, default=3.0, metavar="S", help="seconds of measuring, about (default: 3)"
    )
    parser.add_argument(
        "--concurrency", type=int, default=0, metavar="N", help="also measure throughput and latency with N callers at once"
    )
    parser.add_argument("--nodes", action="store_true", help="show the time of each node and its share of this machine's peak")
    parser.add_argument(
        "--candidates", action="store_true", help="time the kernels that can compute each node, beside their predicted costs"
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="as --candidates, and correct the predictions of later sessions on this machine",
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="nodes to show, 0 for all (default: 20)")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write JSON to a file, or to standard output")
    add_session(parser)
    add_feeds(parser, shape=False)
    add_output(parser, json=False)


def _add_step(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_feeds(parser)
    parser.add_argument("--until", metavar="NODE", default="", help="stop after this node and show its tensors")
    parser.add_argument("--check", action="store_true", help="check after each step that no other memory has changed")
    add_output(parser)


def _add_exec(parser: argparse.ArgumentParser) -> None:
    parser.usage = "ort-lite exec [-h] [-q] COMMAND ...\n       ort-lite exec [-h] [-q] -m MODULE ..."
    parser.description = """\
Run a command on ort-lite: Python programs that import onnxruntime get ort_lite, in the command
itself and in every process that it starts. All arguments after COMMAND or MODULE are passed to it.
The exit status is the command's own, 126 if it cannot be executed, or 127 if it is not found."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress of sessions")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="a Python module and its arguments, as in python -m"
    )
    command = "a Python script (program.py), or a command such as python, bash or one that pip installed"
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="COMMAND ...", help=command)


def _add_new_provider(parser: argparse.ArgumentParser) -> None:
    name = "such as my-npu, for ort-lite-my-npu, ort_lite_my_npu and MyNpuExecutionProvider"
    parser.add_argument("name", metavar="NAME", help=name)
    parser.add_argument("--directory", metavar="DIR", help="the folder to create (default: ort-lite-NAME)")
    parser.add_argument(
        "--license", choices=("Apache-2.0", "MIT", "none"), default="Apache-2.0", help="the license (default: Apache-2.0)"
    )
    add_output(parser)


def _add_coverage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="FOLDER|MODEL.onnx", help="folders of models, or models")
    parser.add_argument("--no-run", action="store_true", help="run nothing: the report has no times")
    parser.add_argument(
        "--top", type=int, default=20, metavar="N", help="operators and reasons to show, 0 for all (default: 20)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    add_session(parser)
    add_feeds(parser)
    add_output(parser)


def _add_check_provider(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("provider", metavar="NAME|MODULE:CLASS", help="an installed provider, or a class")
    parser.add_argument("--options", metavar="JSON", default="{}", help="the provider's options, a JSON object")
    parser.add_argument(
        "--in",
        dest="host",
        default="",
        metavar="HOST",
        help="run the provider in another runtime: onnxruntime, with ort-lite-ep",
    )
    parser.add_argument("--only", metavar="A,B", default="", help="run these checks only")
    parser.add_argument("--operators", metavar="A,B", default="", help="test models of these operators only")
    parser.add_argument("--case", metavar="TEXT", default="", help="test the generated model of this name only")
    parser.add_argument("--save", metavar="FOLDER", default="", help="write generated models that fail, and their inputs")
    parser.add_argument(
        "--rtol", type=float, default=0.0, metavar="R", help="allowed relative difference, if more than a case's"
    )
    parser.add_argument(
        "--atol", type=float, default=0.0, metavar="A", help="allowed absolute difference, if more than a case's"
    )
    parser.add_argument(
        "--shapes", type=int, default=576, metavar="N", help="number of shapes that the check caches runs (default: 576)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    add_output(parser)


def _add_warmup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx|FOLDER", help="models, or folders of models")
    parser.add_argument(
        "--target", action="append", default=[], metavar="T", help="a CPU to compile for (default: host); may be repeated"
    )
    add_session(parser)
    add_feeds(parser)
    add_output(parser)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    found = {name: actions.add_parser(name, help=summary) for name, summary in _CACHE_ACTIONS.items()}
    found["verify"].add_argument("--delete", action="store_true", help="delete what is damaged: it is compiled again")
    prune = found["prune"]
    prune.add_argument("--stale", action="store_true", help="delete kernels of other versions of ort-lite, Numba or Python")
    prune.add_argument("--older-than", type=float, metavar="DAYS", help="delete kernels that were not used for so many days")
    prune.add_argument("--keep-bytes", metavar="N", help="delete the least recently used ones beyond N bytes, such as 500M")
    found["export"].add_argument("file", metavar="FILE.tar", help="the file to write")
    found["import"].add_argument("file", metavar="FILE.tar", help="a file of `ort-lite cache export`")
    for action in found.values():
        add_output(action)


_CACHE_ACTIONS = {
    "dir": "print the path of the cache",
    "list": "show the number and size of kernels by their last use",
    "verify": "find kernels that are damaged or that others could have written",
    "prune": "delete kernels that are no longer needed",
    "export": "write all kernels to a file, for a container image or for other machines",
    "import": "add the kernels of such a file; they are native code, so use only files that you trust",
}


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that completes")
    add_output(parser, json=False)


COMMANDS = (
    Command(
        "run",
        "run a model once and show its outputs",
        _add_run,
        ("ort-lite run model.onnx", "ort-lite run model.onnx --input image=cat.png --dim batch=1 --output outputs.npz"),
    ),
    Command(
        "verify",
        "compare a model's partitions with the CPU provider, or its outputs with another runtime",
        _add_verify,
        (
            "ort-lite verify model.onnx --providers OpenVINOExecutionProvider",
            "ort-lite verify model.onnx --against onnxruntime --rtol 1e-3",
        ),
    ),
    Command(
        "dump",
        "show a model after a stage of the pipeline",
        _add_dump,
        ("ort-lite dump model.onnx --stage transform",),
    ),
    Command(
        "inspect",
        "show a model's inputs, operators, weights and the operations of a run",
        _add_inspect,
        ("ort-lite inspect model.onnx --dim batch=8",),
    ),
    Command(
        "check",
        "say whether a model runs, and everything that stops it",
        _add_check,
        ("ort-lite check model.onnx", "ort-lite check model.onnx --no-run --json"),
    ),
    Command(
        "audit",
        "show what a model reads and can cost, before anything of it runs",
        _add_audit,
        ("ort-lite audit model.onnx --dim batch=8",),
    ),
    Command(
        "plan",
        "show where and when each tensor of a run is in memory",
        _add_plan,
        ("ort-lite plan model.onnx --dim batch=8 --top 10",),
    ),
    Command(
        "profile",
        "show the time of each node and its share of this machine's peak",
        _add_profile,
        ("ort-lite profile model.onnx --threads 1", "ort-lite profile model.onnx --trace trace.json"),
    ),
    Command(
        "explain",
        "show each node's provider and why the others did not take it",
        _add_explain,
        (
            "ort-lite explain model.onnx --providers OpenVINOExecutionProvider,CPUExecutionProvider",
            "ort-lite explain model.onnx --kernels",
        ),
    ),
    Command(
        "view",
        "write a page that shows the graph, its providers, memory and times",
        _add_view,
        ("ort-lite view model.onnx", "ort-lite view model.onnx --providers A --compare B -o page.html"),
    ),
    Command(
        "desk",
        "serve such pages on this machine, to try providers and options",
        _add_desk,
        ("ort-lite desk models/",),
    ),
    Command(
        "serve",
        "serve models over the Open Inference Protocol, by HTTP and gRPC",
        _add_serve,
        ("ort-lite serve models/ --max-batch 8 --max-wait-ms 2",),
    ),
    Command(
        "bench",
        "measure a model, a folder of models or one operator",
        _add_bench,
        (
            "ort-lite bench model.onnx --against onnxruntime --threads 1",
            "ort-lite bench --operator MatMul --shape 128x256 --shape 256x512 --constant 1",
        ),
    ),
    Command(
        "step",
        "execute a model one instruction at a time and show its tensors",
        _add_step,
        ("ort-lite step model.onnx --until conv_1",),
    ),
    Command(
        "exec",
        "run a command whose Python programs get ort_lite when they import onnxruntime",
        _add_exec,
        ("ort-lite exec program.py --model model.onnx", "ort-lite exec -m pytest tests"),
    ),
    Command(
        "providers",
        "list the installed execution providers",
        add_output,
        ("ort-lite providers",),
    ),
    Command(
        "new-provider",
        "create a distribution with an execution provider, to start from",
        _add_new_provider,
        ("ort-lite new-provider my-npu",),
    ),
    Command(
        "check-provider",
        "run the conformance kit on an execution provider",
        _add_check_provider,
        (
            "ort-lite check-provider MyNpuExecutionProvider",
            "ort-lite check-provider my_npu:MyNpuExecutionProvider --only graphs",
            "ort-lite check-provider MyNpuExecutionProvider --in onnxruntime",
        ),
    ),
    Command(
        "coverage",
        "report how much of some models a provider runs, and what to implement next",
        _add_coverage,
        ("ort-lite coverage models/ --provider MyNpuExecutionProvider --html coverage.html",),
    ),
    Command(
        "warmup",
        "compile the kernels of models ahead of time, into the cache",
        _add_warmup,
        ("ort-lite warmup models/", "ort-lite warmup model.onnx --target x86-64-v3 --target host"),
    ),
    Command(
        "cache",
        "manage the folder of compiled kernels",
        _add_cache,
        ("ort-lite cache list", "ort-lite cache prune --stale", "ort-lite cache export kernels.tar"),
    ),
    Command(
        "completion",
        "print a script with which a shell completes commands, options and files",
        _add_completion,
        (
            'bash:  eval "$(ort-lite completion bash)"   # in ~/.bashrc',
            'zsh:   ort-lite completion zsh > "${fpath[1]}/_ort-lite"',
            "fish:  ort-lite completion fish > ~/.config/fish/completions/ort-lite.fish",
        ),
    ),
)
