"""Nodes with symbolic shapes become instructions over buffers."""
