"""The release of onnxruntime that ort_lite stands in for."""

RELEASE = "1.31.1"
"""The release of onnxruntime whose interface is followed, and `onnxruntime.__version__` where ort_lite is imported as onnxruntime.

It has no local part that names ort-lite: programs split a version at dots and take each part for a number, as onnxruntime's own tools
do. `onnxruntime.get_build_info()` names ort-lite.
"""
