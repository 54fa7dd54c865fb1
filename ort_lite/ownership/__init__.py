"""Who owns a model's bytes, who borrows them from whom, and when they go: docs/memory.md."""
