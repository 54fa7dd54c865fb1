"""Provider-independent passes and shape rules, one idea a file. Found by the hooks of ort_lite.hookspecs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ort_lite.inference import ShapeRule
    from ort_lite.transform import Transform


def ort_lite_transforms() -> "list[Transform]":
    """In the order in which they are tried."""
    return []


def ort_lite_shape_rules() -> "list[ShapeRule | list[ShapeRule]]":
    try:
        from ort_lite_transforms import shapes
    except ImportError:
        return []
    return list(getattr(shapes, "RULES", []))
