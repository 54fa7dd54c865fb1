"""Chains of nodes that graph transforms match where their patterns do not say it all: passes, constants, bodies, integers."""

from ort_lite.testing.generator.chains.chain import Chain, Writer, chain_for, chains

__all__ = ["Chain", "Writer", "chain_for", "chains"]
