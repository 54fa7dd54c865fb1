"""The playground: a local server and its page."""
