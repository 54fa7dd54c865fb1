"""Some builds of onnxruntime load libraries of accelerators here. There are none to load."""
