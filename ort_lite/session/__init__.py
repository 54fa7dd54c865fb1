"""What a user calls: InferenceSession, and what it is made of."""

from ort_lite.session.session import InferenceSession

__all__ = ["InferenceSession"]
