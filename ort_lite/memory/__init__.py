"""Memory planning (lifetimes, planners with native packing kernels, the checker) and arenas."""
