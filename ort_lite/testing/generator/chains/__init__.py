"""Chains of nodes for graph transforms that patterns do not fully describe: passes, constants, bodies and integers."""
