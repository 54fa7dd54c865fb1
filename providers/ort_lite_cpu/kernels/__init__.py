"""Kernels that operators share, and what they are written in."""
