"""Reading and writing of ONNX models, external data, and tensors that own, borrow or map their bytes."""
