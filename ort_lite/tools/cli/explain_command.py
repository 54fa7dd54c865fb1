"""`ort-lite explain MODEL.onnx`: show which provider runs each node and why the others do not; with --trace, where session creation
time went.
"""

from argparse import Namespace

from ort_lite.options.config_keys import CREATION_TRACE
from ort_lite.session.creation import COLUMNS
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.printing import print_json, print_table, print_text


def main(arguments: Namespace) -> None:
    """Run `ort-lite explain`."""
    options = session_arguments.options(arguments)
    if arguments.trace:
        options.add_session_config_entry(CREATION_TRACE, "1")
    with session_arguments.session(arguments, arguments.model, options) as session:
        trace = session.creation_trace if arguments.trace else None
        if trace is None:
            found = session.explain(kernels=arguments.kernels)
            if arguments.json:
                print_json("explain", found.as_dict())
            else:
                print_text(found)
        elif arguments.json:
            print_json("explain", trace.as_dict())
        else:
            print_table(COLUMNS, trace.table(), ("calls", "ms"))
