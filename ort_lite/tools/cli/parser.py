"""The subcommands and options of the command line. Slow imports are avoided, so `--help` and errors appear at once."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from ort_lite._version import __version__
from ort_lite.errors import hint

LEVELS = ("disable", "basic", "extended", "all")
STAGES = ("load", "transform", "partition", "compile", "plan")
_CHOICES = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says what is wrong and suggests what was meant."""

    def error(self, message: str) -> NoReturn:
        """Print a usage error and exit with status 2."""
        found = _CHOICES.search(message)
        if found:
            known = re.findall(r"[\w.-]+", found["known"])
            message = (
                message[: found.start()] + f"{found['given']!r} is none of {', '.join(known)}{hint(found['given'], known)}"
            )
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help tells more)\n")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse as argparse does, but let the subcommand report an unknown option."""
        found, rest = self.parse_known_args(arguments)
        if rest:
            parser = self._subcommand(getattr(found, "command", ""))
            known = [option for action in parser._actions for option in action.option_strings]
            word = rest[0].partition("=")[0]
            what = "no option is called" if word.startswith("-") else "nothing takes the argument"
            parser.error(f"{what} {word}{hint(word, known) if word.startswith('-') else ''}")
        return found

    def _subcommand(self, name: str) -> argparse.ArgumentParser:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                chosen: argparse.ArgumentParser = action.choices[name]
                return chosen
        return self


def command_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser("ort-lite", description="An ONNX runtime in which an accelerator is a Python package.")
    parser.add_argument("--version", action="version", version=f"ort-lite {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a model once and show what comes out")
    _model(run)
    _feeds(run)
    run.add_argument("--output", metavar="FILE.npz", help="write the outputs to this file")
    run.add_argument("--trace", metavar="FILE.json", help="write how the session was made, and what the run did, for Perfetto")
    _json(run)

    verify = commands.add_parser(
        "verify", help="compare a model's partitions with the CPU provider, or its outputs with onnxruntime"
    )
    _model(verify)
    _feeds(verify)
    others = ("CPUExecutionProvider", "onnxruntime", "openvino")
    verify.add_argument("--against", choices=others, default=others[0], help="whose results are right (CPUExecutionProvider)")
    verify.add_argument("--rtol", type=float, metavar="R", help="relative tolerance (default: by element type)")
    verify.add_argument("--atol", type=float, metavar="A", help="absolute tolerance (default: by element type)")
    _json(verify)

    dump = commands.add_parser("dump", help="show what a stage of the pipeline makes of a model")
    _model(dump)
    _feeds(dump)
    dump.add_argument("--stage", choices=STAGES, default="partition", help="where to stop (default: partition)")
    _json(dump)

    inspect = commands.add_parser("inspect", help="show what is in a model: operators, opsets, weights, operations of a run")
    _model(inspect)
    _sizes(inspect)
    _json(inspect)

    check = commands.add_parser("check", help="say whether a model would run, and all that would stop it")
    _model(check)
    _json(check)

    plan = commands.add_parser("plan", help="show where each tensor of a run lives and when, and how good that is")
    _model(plan)
    _feeds(plan)
    plan.add_argument("--top", type=int, default=40, metavar="N", help="so many tensors, 0 for all (default: 40)")
    _json(plan)

    profile = commands.add_parser("profile", help="show what each node of a run takes, beside this machine's peaks")
    _model(profile)
    _feeds(profile)
    profile.add_argument("--seconds", type=float, default=2.0, metavar="S", help="to measure, about (default: 2)")
    profile.add_argument("--top", type=int, default=20, metavar="N", help="so many nodes, 0 for all (default: 20)")
    profile.add_argument(
        "--trace", metavar="FILE.json", help="write how a session was made, and what two runs did, for Perfetto"
    )
    _json(profile)

    explain = commands.add_parser("explain", help="say who runs each node of a model, and why nobody else does")
    _model(explain)
    explain.add_argument("--trace", action="store_true", help="say what making the session did, and how long it took")
    _json(explain)

    _view(commands.add_parser("view", help="write a page for a browser: the graph, who runs what and why, each stage"))
    _desk(commands.add_parser("desk", help="serve such pages to a browser on this machine, to try providers and options in"))
    _serve(commands.add_parser("serve", help="serve models over the Open Inference Protocol, by HTTP and gRPC"))
    _bench(commands.add_parser("bench", help="time a model, a folder of models or one operator, against another runtime"))

    step = commands.add_parser("step", help="execute a model instruction by instruction and look at what it computes")
    _model(step)
    _feeds(step)
    step.add_argument("--until", metavar="NODE", default="", help="stop behind this node, and show its tensors")
    step.add_argument("--check", action="store_true", help="prove after each step that nothing else changed")
    _json(step)

    _exec(
        commands.add_parser("exec", help="run a command on ort-lite: its Python programs that import onnxruntime get ort_lite")
    )

    providers = commands.add_parser("providers", help="list the execution providers that are installed")
    _json(providers)

    new = commands.add_parser("new-provider", help="write a distribution with an execution provider, to start from")
    new.add_argument("name", metavar="NAME", help="as in my-npu: ort-lite-my-npu, ort_lite_my_npu, MyNpuExecutionProvider")
    new.add_argument("--directory", metavar="DIR", help="the directory to make (default: ort-lite-NAME)")
    new.add_argument("--license", choices=("Apache-2.0", "MIT", "none"), default="Apache-2.0", help="default: Apache-2.0")

    _json(new)

    check = commands.add_parser("check-provider", help="run the conformance kit on an execution provider")
    check.add_argument("provider", metavar="NAME|MODULE:CLASS", help="one that is installed, or a class")
    check.add_argument("--options", metavar="JSON", default="{}", help="its options, an object")
    check.add_argument("--only", metavar="A,B", default="", help="these checks alone")
    check.add_argument("--operators", metavar="A,B", default="", help="models of these operators alone")
    check.add_argument("--case", metavar="TEXT", default="", help="the generated model of this name alone")
    check.add_argument("--save", metavar="FOLDER", default="", help="write generated models that fail, and their inputs")
    check.add_argument("--rtol", type=float, default=0.0, metavar="R", help="relative difference allowed beyond a case's own")
    check.add_argument("--atol", type=float, default=0.0, metavar="A", help="absolute difference allowed beyond a case's own")
    check.add_argument("--html", metavar="FILE", help="write the report as a page")
    check.add_argument("--junit", metavar="FILE", help="write the report as JUnit's XML")
    _json(check)

    warmup = commands.add_parser("warmup", help="compile the kernels of models ahead, into the cache")
    warmup.add_argument("models", nargs="+", metavar="MODEL.onnx|FOLDER", help="models, and folders of models")
    warmup.add_argument(
        "--target", action="append", default=[], metavar="T", help="what to compile for, several times for several (host)"
    )
    _session(warmup)
    _feeds(warmup)
    _json(warmup)

    _cache(commands.add_parser("cache", help="look after the folder of compiled kernels"))
    return parser


def _exec(parser: argparse.ArgumentParser) -> None:
    parser.usage = "ort-lite exec [-h] COMMAND ...\n       ort-lite exec [-h] -m MODULE ..."
    parser.description = (
        "Run a command. Python programs that import onnxruntime get ort_lite, in the command itself and in every process that it "
        "starts. All arguments after COMMAND or MODULE are passed to it. The exit status is the command's own, 126 if it cannot be "
        "executed, or 127 if it is not found."
    )
    command = "a Python script (program.py), or a command such as python, bash or one that pip installed"
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="a Python module and its arguments, as in `python -m`"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="COMMAND ...", help=command)


def _view(parser: argparse.ArgumentParser) -> None:
    _model(parser)
    _feeds(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="what to write (default: the model's name, here)")
    parser.add_argument(
        "--format", choices=("html", "model-explorer"), default="html", help="a page, or JSON for Model Explorer"
    )
    parser.add_argument("--annotate", metavar="FILE.onnx", help="write the model too, with who runs each node, for Netron")
    parser.add_argument("--compare", metavar="C,D", help="other providers, to compare with --providers")
    parser.add_argument("--no-run", action="store_true", help="do not run the model for what its nodes take")
    parser.add_argument("--profile", metavar="FILE.json", help="what nodes take is in this trace of a run")
    _json(parser)


def _desk(parser: argparse.ArgumentParser) -> None:
    models = "what can be chosen (default: this folder)"
    parser.add_argument("models", nargs="*", default=["."], metavar="FOLDER|MODEL.onnx", help=models)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="where to listen (default: any that is free)")
    parser.add_argument("--no-open", action="store_true", help="print the address, and open no browser")
    _session(parser)
    _feeds(parser)
    _json(parser)


def _serve(parser: argparse.ArgumentParser) -> None:
    models = "models, and folders of NAME.onnx and of NAME/VERSION/model.onnx"
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx|FOLDER", help=models)
    parser.add_argument("--host", default="127.0.0.1", help="who may reach it: 0.0.0.0 is everybody (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="of HTTP, 0 for any that is free (default: 8000)")
    parser.add_argument("--grpc-port", type=int, default=8001, metavar="N", help="of gRPC (default: 8001)")
    parser.add_argument("--no-grpc", action="store_true", help="HTTP alone")
    joined = "rows of requests that are run as one, where no row matters to another's results (default: 1, none are)"
    parser.add_argument("--max-batch", type=int, default=1, metavar="N", help=joined)
    parser.add_argument(
        "--max-wait-ms", type=float, default=0.0, metavar="MS", help="how long one waits for others (default: 0)"
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="runs of a model at once (default: 2)")
    parser.add_argument("--queue", type=int, default=256, metavar="N", help="requests that wait for a model (default: 256)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds for an answer (default: 30)")
    parser.add_argument("--max-request-mb", type=int, default=64, metavar="N", help="MiB of a request (default: 64)")
    _session(parser)


def _bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL.onnx", help="a model, or a folder of models")
    parser.add_argument("--operator", metavar="NAME", help="instead of a model: a node of this operator")
    parser.add_argument("--shape", action="append", default=[], metavar="NxM", help="its next input; of a model: NAME=NxM")
    parser.add_argument("--dtype", action="append", default=[], metavar="T", help="of all inputs, or of the next (float32)")
    parser.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE", help="an attribute of it")
    parser.add_argument("--constant", action="append", default=[], type=int, metavar="K", help="input K is no feed (from 0)")
    parser.add_argument(
        "--against", choices=("onnxruntime", "openvino"), help="a runtime to compare with; it must be installed"
    )
    parser.add_argument("--shapes", action="append", default=[], metavar="'A=NxM B=N'", help="a set of shapes, a line for each")
    seconds = "to measure a model, about (default: 3)"
    parser.add_argument("--seconds", "--duration", type=float, default=3.0, metavar="S", help=seconds)
    callers = "besides, how many runs a second N callers get, and how long single ones take"
    parser.add_argument("--concurrency", type=int, default=0, metavar="N", help=callers)
    parser.add_argument("--nodes", action="store_true", help="show what each node takes, beside this machine's peaks")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="so many nodes, 0 for all (default: 20)")
    parser.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write JSON to this file, or to the standard output"
    )
    _session(parser)
    _feeds(parser, shape=False)


def _cache(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    folder = actions.add_parser("dir", help="print its path")
    listed = actions.add_parser("list", help="count objects and bytes, by when they were used last")
    verify = actions.add_parser("verify", help="look for objects that are damaged, or that others could have written")
    verify.add_argument("--delete", action="store_true", help="delete them: they are compiled again")
    prune = actions.add_parser("prune", help="delete what is not needed any more")
    prune.add_argument("--stale", action="store_true", help="objects that other versions of ort-lite, Numba or Python made")
    prune.add_argument("--older-than", type=float, metavar="DAYS", help="objects that have not been used for so many days")
    prune.add_argument("--keep-bytes", metavar="N", help="all but N bytes, or 500M: those go that were used longest ago")
    export = actions.add_parser("export", help="write all objects into one file, for a container image or other machines")
    export.add_argument("file", metavar="FILE.tar")
    imported = actions.add_parser("import", help="take the objects of such a file; they are code: only from who you trust")
    imported.add_argument("file", metavar="FILE.tar")
    for action in (folder, listed, verify, prune, export, imported):
        _json(action)


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL.onnx")
    _session(parser)


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--providers", "--provider", metavar="A,B", help="execution providers in order of preference (CPU)")
    parser.add_argument("--threads", type=int, default=0, help="threads of one run (default: the provider's)")
    parser.add_argument("--level", choices=LEVELS, default="all", help="how far transforms go (default: all)")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a session config entry")
    strict = "fail if a provider that --providers lists is not installed, has no device or is assigned no node"
    parser.add_argument("--strict", action="append_const", dest="config", const="ort_lite.strict=1", help=strict)
    limit = "seconds that the creation of a session may take (default: no limit)"
    parser.add_argument("--creation-timeout", type=float, default=0.0, metavar="S", help=limit)


def _feeds(parser: argparse.ArgumentParser, shape: bool = True) -> None:
    parser.add_argument("--feeds", metavar="FILE.npz|FOLDER", help="inputs by name, or a folder with input_0.pb and so on")
    many: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--input", metavar="NAME=FILE", help="one input: .npy, .pb, .txt, or an image", **many)
    parser.add_argument("--value", metavar="NAME=V,V", help="one input: its elements, or one for all of them", **many)
    if shape:
        parser.add_argument("--shape", metavar="NAME=1x3x224x224", help="the shape of an input that no file has", **many)
    parser.add_argument("--dim", metavar="NAME=N", help="a free dimension of such inputs (1)", **many)
    parser.add_argument("--seed", type=int, default=0, help="of inputs that nothing gives: they are random (default: 0)")


def _sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", action="append", default=[], help="the shape of an input")
    parser.add_argument("--dim", metavar="NAME=N", action="append", default=[], help="a free dimension of the inputs (1)")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
