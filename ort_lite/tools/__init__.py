"""Tools built on sessions: the command line, the viewer, the playground, verification and the formal machine."""
