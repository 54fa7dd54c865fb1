"""The stages of the pipeline, one module each; data flows downwards."""
