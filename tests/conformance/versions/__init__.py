"""One-node models of every version of every ONNX operator, against an oracle. `registry.py` lists the modules of cases."""
