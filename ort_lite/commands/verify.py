"""`ort-lite verify MODEL.onnx --provider X`: each partition of X beside the CPU provider, from the same inputs."""

from argparse import Namespace

from ort_lite.commands import model
from ort_lite.commands.feeds import feeds_of
from ort_lite.commands.printing import print_json, print_text
from ort_lite.session.session import InferenceSession
from ort_lite.session.verify import keeping
from ort_lite.verification.settings import Verification


def main(arguments: Namespace) -> None:
    """Shows the report. Raises VerificationError where a partition is off."""
    options = keeping(model.options(arguments))
    with InferenceSession(arguments.model, options, providers=model.providers(arguments)) as session:
        feeds = feeds_of(arguments, session.get_inputs())
        try:
            session.run(None, feeds, verify=Verification(arguments.rtol, arguments.atol))
        finally:
            report = session.verification
            if report is not None and arguments.json:
                print_json(report.as_dict())
            elif report is not None:
                print_text(report)
