"""LSTM, GRU, RNN."""

from ort_lite.inference import Info, Op, shape_rule
from ort_lite.shapes import Dim


def recurrent_infos(op: Op, hidden: Dim) -> list[Info]:
    """Y, Y_h and Y_c of x (S, B, I), or (B, S, I) with `layout` 1."""
    shape, dtype = op.shape(0), op.dtype(0)
    _check_activations(op)
    directions = 2 if op.attr("direction", "forward") == "bidirectional" else 1
    if op.attr("layout", 0):
        batch, sequence = shape[:2]
        state = op.tensor(dtype, (batch, directions, hidden))
        return [op.tensor(dtype, (batch, sequence, directions, hidden)), state, state]
    sequence, batch = shape[:2]
    state = op.tensor(dtype, (directions, batch, hidden))
    return [op.tensor(dtype, (sequence, directions, batch, hidden)), state, state]


_ACTIVATIONS = "affine elu hardsigmoid leakyrelu relu scaledtanh sigmoid softplus softsign tanh thresholdedrelu"
_OF_A_DIRECTION = {"LSTM": 3, "GRU": 2, "RNN": 1}


def _check_activations(op: Op) -> None:
    """Raises ShapeInferenceError for names that ONNX has not, in whatever case, and for another number of them than expected.

    Of an RNN there may be two: the schema's default, for any direction. Others than the first are for the way back.
    """
    names = op.attr("activations")
    if not names or not op.at_load:
        return
    unknown = next((name for name in names if name.lower() not in _ACTIVATIONS.split()), None)
    if unknown is not None:
        raise op.error(f"activations {names}: {unknown!r} is none of {', '.join(_ACTIVATIONS.split())}")
    wanted = _OF_A_DIRECTION.get(op.node.op_type, 0) * (2 if op.attr("direction") == "bidirectional" else 1)
    if wanted and len(names) != wanted and (op.node.op_type, len(names)) != ("RNN", 2):
        raise op.error(f"activations {names} should be {wanted} names")


@shape_rule("LSTM", "GRU", "RNN")
def recurrent(op: Op) -> list[Info]:
    """(S, B, I) -> (S, D, B, H), the last states (D, B, H). Spec: ONNX LSTM-22, GRU-22, RNN-22."""
    hidden = op.attr("hidden_size")
    return recurrent_infos(op, op.shape(2)[-1] if hidden is None else hidden)


RULES = [*recurrent]
