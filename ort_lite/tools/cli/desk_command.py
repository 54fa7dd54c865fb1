"""`ort-lite desk FOLDER`: serve the page of `ort-lite view` for any model in a folder, with a choice of providers and options."""

import signal
import webbrowser
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from ort_lite.errors import InvalidArgument
from ort_lite.tools.cli.printing import print_json, print_text
from ort_lite.tools.playground.playground import Playground
from ort_lite.tools.playground.server import PlaygroundServer
from ort_lite.tools.view.page import page_of

MODULES = ("providers", "results", "playground")
"""Of `page/`, each behind those that it imports from."""


def main(arguments: Namespace) -> None:
    """Serve until Ctrl-C or SIGTERM. Neither counts as an error."""
    if not 0 <= arguments.port < 1 << 16:
        raise InvalidArgument(f"--port {arguments.port}: expected 0 to {(1 << 16) - 1}")
    playground = Playground(arguments)
    with PlaygroundServer(playground, playground_page(), arguments.port) as server:
        try:
            with _interrupt_on_signals():
                _serve(server, arguments)
        except KeyboardInterrupt:
            if not playground.close():
                print_text("what it was working on did not end in time, and is left")


def _serve(server: PlaygroundServer, arguments: Namespace) -> None:
    if arguments.json:
        print_json("desk", {"address": server.address, "models": [*server.playground.models]})
    else:
        print_text(f"{server.address}\nCtrl-C ends it.")
    if not arguments.no_open:
        webbrowser.open(server.address)
    server.serve_forever()


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, and on SIGINT even if it was ignored, as it is for background jobs of a script."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def playground_page() -> str:
    """Return the page without a document, with the script and style of the playground."""
    folder = files("ort_lite.tools.playground") / "page"
    script = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in MODULES)
    return page_of(None, script, (folder / "playground.css").read_text(encoding="utf-8"))
