"""The stages in a row: a model opened, transformed, assigned, compiled; as far as somebody wants."""
