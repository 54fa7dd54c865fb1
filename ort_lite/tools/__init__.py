"""Tools over sessions: the command line, the viewer, the playground, verified runs, the machine."""
