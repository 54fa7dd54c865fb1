"""`ort_lite.verify`: compare providers with the CPU provider on a model, without creating a session."""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import VerificationError
from ort_lite.graph.model import Model
from ort_lite.load.source import ModelSource
from ort_lite.options.config_keys import KEEP_CONSTANTS
from ort_lite.partition.placement import PlacementRule
from ort_lite.plugins.selection import ProviderEntry
from ort_lite.tools.verify.settings import PARTITION, Verification
from ort_lite.tools.verify.verification_report import VerificationReport


def verify(
    model: ModelSource | Model,
    feed: Mapping[str, Any],
    providers: Sequence[ProviderEntry] | None = None,
    options: SessionOptions | None = None,
    *,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    placement_rules: Sequence[PlacementRule] = (),
    checks: Verification | None = None,
) -> VerificationReport:
    """Run the model once with verification and return the report; differences are not raised. Raises what creating and running a
    session raises.
    """
    kept = keeping(options)
    report: VerificationReport
    with InferenceSession(model, kept, providers, provider_options, placement_rules=placement_rules) as session:
        try:
            session.run(None, feed, verify=PARTITION if checks is None else checks)
        except VerificationError as found:
            report = found.report
        else:
            report = session.verification
    return report


def keeping(options: SessionOptions | None) -> SessionOptions:
    """Return options that keep every constant, because the CPU provider will need them."""
    made = options.copy() if options is not None else SessionOptions()
    made.add_session_config_entry(KEEP_CONSTANTS, "1")
    return made
