"""Offsets for tensors with limited lifetimes: lifetimes, planners with native packing kernels, and the checker."""
