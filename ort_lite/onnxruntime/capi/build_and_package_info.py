"""Name and version of the package."""

from ort_lite.compat.release import SERVED

__version__ = SERVED
package_name = "onnxruntime"
