"""A model at each stage, as a document and as a page that needs no network: `InferenceSession.view()` and `ort-lite view`."""
