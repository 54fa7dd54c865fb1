"""`ort-lite serve MODEL.onnx|FOLDER`: serve models over the Open Inference Protocol. Needs the distribution ort-lite-serve."""

from argparse import Namespace
from importlib.metadata import entry_points

from ort_lite.errors import InvalidArgument
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.printing import print_text

GROUP = "ort_lite.commands"
"""Entry points: commands that another distribution does, called with the arguments, what opens a session, and what prints."""


def main(arguments: Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    for entry in entry_points(group=GROUP, name="serve"):
        entry.load()(arguments, lambda path: session_arguments.session(arguments, path), print_text)
        return
    raise InvalidArgument("the server is a package of its own: in a clone of ort-lite, pip install ./plugins/ort-lite-serve")
