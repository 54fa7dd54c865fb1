"""`ort-lite warmup MODEL.onnx ...`: makes a session for each and runs it once, so that its kernels are in the cache."""

import time
from argparse import Namespace

from ort_lite.commands import model
from ort_lite.commands.printing import print_text


def main(arguments: Namespace) -> None:
    for path in arguments.models:
        start = time.perf_counter()
        session = model.session(arguments, path)
        session.run(None, model.feeds(arguments, session.get_inputs()))
        print_text(f"{path}: warm after {time.perf_counter() - start:.2f} s")
