"""The stages of a model as a document and as a page that needs no network: `InferenceSession.view()`, `ort-lite view`."""
