"""The release of onnxruntime that ort_lite stands in for."""

RELEASE = "1.32.0"
"""The followed release of onnxruntime. It is `onnxruntime.__version__` if ort_lite is imported as onnxruntime.

It has no local version part because programs, such as onnxruntime's own tools, split it at dots and expect numbers.
`onnxruntime.get_build_info()` names ort-lite.
"""
