"""TemplateExecutionProvider, an execution provider for ort-lite."""

from ort_lite_template.provider import TemplateExecutionProvider

__all__ = ["TemplateExecutionProvider"]
