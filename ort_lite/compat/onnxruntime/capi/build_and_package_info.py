"""The name and version of the package."""

from ort_lite.compat.release import RELEASE

__version__ = RELEASE
package_name = "onnxruntime"
