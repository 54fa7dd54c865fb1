"""`ort-lite view MODEL.onnx`: a page for a browser that shows what becomes of a model."""

from argparse import Namespace
from pathlib import Path

from ort_lite.commands import model
from ort_lite.commands.printing import print_text


def main(arguments: Namespace) -> None:
    with model.session(arguments, arguments.model) as session:
        view = session.view()
    if arguments.json:
        print_text(view.to_json())
        return
    print_text(view.save(arguments.output or f"{Path(arguments.model).stem}.html"))
