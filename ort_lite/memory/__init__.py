"""Memory planning: lifetimes, planners and their native packing kernels, the checker, arenas."""
