"""Offsets for tensors that live for a while: lifetimes, planners, their native packing kernels, the checker."""
