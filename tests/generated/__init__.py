"""Generated models, run by ort-lite and compared with onnx.reference, onnxruntime and ort-lite itself.

python -m tests.generated --models 1000        generate and compare models; --help lists the options
"""
