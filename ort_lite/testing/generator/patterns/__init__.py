"""Chains of nodes that the graph transforms match, one for each transform: by chance they hardly come about."""

from ort_lite.testing.generator.patterns.chain import Chain, Pattern, pattern, patterns

__all__ = ["Chain", "Pattern", "pattern", "patterns"]
