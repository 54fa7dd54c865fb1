"""Settings of a search: attributes and inputs, checked before the first call of a body."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.record import Record
from ort_lite_cpu.run.pace import CHEAP, Pace

T = TypeVar("T")

LOWEST = np.finfo(np.float32).min
"""The score of a token that must not be chosen: finite, so that sums and differences stay numbers."""

MOST_BEAMS = 128
"""The largest number of beams, as in onnxruntime: nearly all of more beams would be copies of one another."""

MOST_TOKENS = 4096
"""The longest sequence, as in onnxruntime: each has room for so many tokens from the beginning."""


class Timestamps(Record):
    """Token ids of Whisper; those from `first` on are timestamps. -1: there is no such token."""

    first: int
    translate: int
    transcribe: int
    start_of_lm: int
    no_timestamps: int


class Settings(Record, eq=False):
    """The settings of one run.

    Token ids that must not be chosen have a 0 in `vocab_mask` (V,), those of the first token in `prefix_vocab_mask` (B, V).
    """

    node: Node
    vocabulary: int
    eos: int
    pad: int
    start: int
    """The token that an encoder-decoder begins with."""
    max_length: int
    min_length: int = 0
    repetition_penalty: float = 1.0
    ngram: int = 0
    temperature: float = 1.0
    vocab_mask: Array | None = None
    prefix_vocab_mask: Array | None = None
    presence_mask: Array | None = None
    """The tokens (B, V) that were there already, which cost `presence_penalty`."""
    presence_penalty: float = 0.0
    beams: int = 1
    returned: int = 1
    """The number of beams in an output."""
    length_penalty: float = 1.0
    early_stopping: bool = False
    starts: Array | None = None
    """The tokens (B, S) that an encoder-decoder begins with in place of `start`."""
    timestamps: Timestamps | None = None
    """The tokens that pair timestamps, if they do."""
    silence: int = -1
    """The token whose probability in the first turn is an output, -1 for none."""

    def error(self, message: str) -> InvalidArgument:
        """Return the error that names the node."""
        return InvalidArgument(f"{self.node}: {message}")

    @property
    def pace(self) -> Pace:
        """Return the pace of the node's step."""
        return Pace(self.node)

    def compute(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Return function(*arguments). A function of many elements is not waited for once the run is cancelled."""
        return function(*arguments) if size <= CHEAP else self.pace.beside(function, *arguments)


def scalar(node: Node, name: str, array: Array | None, default: float) -> Any:
    """Return the one element of an input, `default` where it is left out. Raises InvalidArgument for more than one."""
    if array is None:
        return default
    if array.size != 1 or array.ndim > 1:
        raise InvalidArgument(f"{node}: input {name!r} has shape {array.shape}; a scalar is expected")
    return array.reshape(-1)[0].item()


def check_settings(s: Settings, batch: int, length: int) -> None:
    """Raise InvalidArgument for settings that contradict each other, or `batch` prompts of `length` tokens."""
    if s.max_length > MOST_TOKENS:
        raise s.error(f"max_length is {s.max_length}; a number up to {MOST_TOKENS} is expected")
    if s.max_length <= length:
        raise s.error(f"max_length is {s.max_length}; it must be greater than the {length} tokens to begin with")
    if not 0 <= s.min_length <= s.max_length:
        raise s.error(f"min_length is {s.min_length}; a number from 0 to max_length ({s.max_length}) is expected")
    if not s.repetition_penalty > 0:
        raise s.error(f"repetition_penalty is {s.repetition_penalty}; a number greater than 0 is expected")
    if not 1 <= s.beams <= MOST_BEAMS:
        raise s.error(f"num_beams is {s.beams}; a number from 1 to {MOST_BEAMS} is expected")
    if not 1 <= s.returned <= s.beams:
        raise s.error(f"num_return_sequences is {s.returned}; a number from 1 to num_beams ({s.beams}) is expected")
    if s.timestamps is not None and not 0 < s.timestamps.first < s.vocabulary:
        raise s.error(
            f"beginning_timestamp_token_id is {s.timestamps.first}; a number from 1 to {s.vocabulary - 1} is expected"
        )
    _fits(s, "vocab_mask", s.vocab_mask, (s.vocabulary,))
    _fits(s, "prefix_vocab_mask", s.prefix_vocab_mask, (batch, s.vocabulary))
    _fits(s, "presence_mask", s.presence_mask, (batch, s.vocabulary))


def _fits(settings: Settings, name: str, mask: Array | None, expected: tuple[int, ...]) -> None:
    if mask is not None and mask.shape != expected:
        raise settings.error(f"input {name!r} has shape {mask.shape}; {expected} is expected")


def optional(arrays: Sequence[Array | None], index: int) -> Array | None:
    """Return input `index`, or None if it is left out."""
    return arrays[index] if index < len(arrays) else None


def floats(settings: Settings, logits: Array) -> Array:
    """Return a copy of the logits of the last token of each row, (rows, vocabulary), float32. Raises InvalidArgument for NaN."""
    made = logits[:, -1, : settings.vocabulary].astype(np.float32)
    if np.isnan(made).any():
        raise settings.error("its body gives logits that are NaN: no token is the likeliest")
    return made
