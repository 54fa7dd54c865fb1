"""The playground: a server on this machine, and its page."""
