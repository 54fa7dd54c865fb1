"""A placeholder for the module in which some onnxruntime builds load accelerator libraries."""
