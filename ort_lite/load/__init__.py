"""Models and bytes: ONNX files to a Model and back, external data, owned and mapped tensors."""
