"""The parts of onnxruntime's API beyond the session itself, and the import switch."""
