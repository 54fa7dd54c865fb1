"""The command line: one module a command, `rich` imported where something is printed."""
