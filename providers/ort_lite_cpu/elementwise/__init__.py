"""Elementwise expressions: operators become formulas, formulas that follow each other become one generated loop."""
