"""Chains of nodes that graph transforms match where their patterns do not say it all: passes, constants, bodies, integers."""
