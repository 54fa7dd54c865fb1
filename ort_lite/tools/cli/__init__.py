"""The command line: one module per command. `rich` is imported only where something is printed."""
