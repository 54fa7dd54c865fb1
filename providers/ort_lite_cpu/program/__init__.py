"""A lowered program assembled, bound to shapes and run."""
