"""Arguments that several commands share."""

import argparse
from typing import Any

LEVELS = ("disable", "basic", "extended", "all")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model and the options of its session."""
    parser.add_argument("model", metavar="MODEL.onnx", help="the ONNX model, a file")
    add_session(parser)


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add the options of sessions."""
    group = parser.add_argument_group("session")
    group.add_argument(
        "--providers",
        "--provider",
        metavar="A,B",
        help="execution providers, the preferred one first (default: the CPU provider)",
    )
    group.add_argument("--threads", type=int, default=0, metavar="N", help="threads of a run (default: all cores)")
    group.add_argument("--level", choices=LEVELS, default="all", help="level of graph optimization (default: all)")
    group.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a session config entry; may be repeated"
    )
    strict = "fail if a provider of --providers is not installed, has no device or is assigned no node"
    group.add_argument("--strict", action="append_const", dest="config", const="ort_lite.strict=1", help=strict)
    limit = "time limit in seconds for the creation of a session (default: none)"
    group.add_argument("--creation-timeout", type=float, default=0.0, metavar="S", help=limit)


def add_feeds(parser: argparse.ArgumentParser, shape: bool = True) -> None:
    """Add the options that give the inputs of a run. `shape`: also the shapes of random ones."""
    group = parser.add_argument_group("inputs", "Inputs that nothing gives are random.")
    group.add_argument(
        "--feeds", metavar="FILE.npz|FOLDER", help="inputs by name, or a folder with input_0.pb, input_1.pb and so on"
    )
    many: dict[str, Any] = {"action": "append", "default": []}
    group.add_argument("--input", metavar="NAME=FILE", help="an input from a file: .npy, .pb, .txt or an image", **many)
    group.add_argument("--value", metavar="NAME=V,V", help="an input by its elements, or one value for all of them", **many)
    if shape:
        group.add_argument("--shape", metavar="NAME=1x3x224x224", help="the shape of a random input", **many)
    group.add_argument("--dim", metavar="NAME=N", help="the size of a free dimension of random inputs (default: 1)", **many)
    group.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of random inputs (default: 0)")


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add the options that give the sizes of the inputs."""
    many: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--shape", metavar="NAME=1x3x224x224", help="the shape of an input", **many)
    parser.add_argument("--dim", metavar="NAME=N", help="the size of a free dimension of the inputs (default: 1)", **many)


def add_output(parser: argparse.ArgumentParser, json: bool = True) -> None:
    """Add the options that choose what is printed. `json`: also as JSON, by the schema in output_schema.json."""
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log what sessions do; -vv logs more")
    parser.add_argument("-q", "--quiet", action="store_true", help="print results and errors only: no progress, no warnings")
