"""Where every tensor lives: lifetimes, planners and their native packing kernels, the checker, arenas."""
