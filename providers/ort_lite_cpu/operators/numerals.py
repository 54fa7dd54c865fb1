"""Numbers that texts write: decimal, in scientific notation, hexadecimal as C writes floats, infinities and NaN. Spec: ONNX Cast-25.

Every text that onnxruntime reads to its end is the same number here. Where it ignores what stands behind a number ("1_000" is 1, and
so is "1e3" as an integer), texts are integers in any of these forms, cut towards zero, or no numbers at all.
"""

import re

_SPACE = "[ \t\n\v\f\r]*+"
_NUMERAL = re.compile(
    rf"{_SPACE}([+-]?)(?:((?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:e[+-]?[0-9]++)?+)|(inf(?:inity)?+|nan(?:\([0-9a-z_]*+\))?+)"
    rf"|(0x(?:[0-9a-f]++(?:\.[0-9a-f]*+)?+|\.[0-9a-f]++)(?:p[+-]?[0-9]++)?+)){_SPACE}",
    re.ASCII | re.IGNORECASE,
)
_DECIMAL = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+"
_DECIMALS = re.compile(f"{_DECIMAL}(?:,{_DECIMAL})*+", re.ASCII)
_SHORT = re.compile(r"[+-]?[0-9]{1,18}+(?:,[+-]?[0-9]{1,18}+)*+", re.ASCII)
"""Numbers with commas between them: decimal ones, and integers of 64 bits. Many are compared at once, in a fifth of the time."""
LONGEST = 1000
"""Characters of a number: conversions take the square of them."""


def _parts(text: str) -> tuple[bool, str, str, str]:
    """Return the sign (True if negative), and the decimal number, word or hexadecimal number."""
    if len(text) > LONGEST:
        raise ValueError(f"a text of {len(text):,} characters is not a number; expected at most {LONGEST}")
    match = _NUMERAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number; expected digits as in '42', '-3.14' and '1e-5', or INF and NaN")
    sign, *forms = match.groups(default="")
    decimal, word, hexadecimal = forms
    return sign == "-", decimal, word, hexadecimal


def real(text: str) -> float:
    """Return the number as a double. Raises ValueError for what is none, and for what is beyond a double's range."""
    negative, decimal, word, hexadecimal = _parts(text)
    value = _hexadecimal(hexadecimal) if hexadecimal else float(decimal or word[:3])
    if value == float("inf") and not word:
        raise ValueError(f"{text!r} is beyond the range of a double; infinities are written INF and -INF")
    return -value if negative else value


def _hexadecimal(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except OverflowError:
        return float("inf")


def whole(text: str) -> int:
    """Return the number, cut towards zero. Raises ValueError for what is none, infinities and NaN."""
    negative, decimal, *_ = _parts(text)
    if decimal.isdigit():
        return -int(decimal) if negative else int(decimal)
    value = real(text)
    if value - value != 0:
        raise ValueError(f"{text!r} has no value among the integers")
    return int(value)


def reals(texts: list[str]) -> list[float]:
    """Return `real` of each."""
    if _are(_DECIMALS, texts):
        values = list(map(float, texts))
        if max(map(abs, values)) != float("inf"):
            return values
    return list(map(real, texts))


def wholes(texts: list[str]) -> list[int]:
    """Return `whole` of each."""
    return list(map(int if _are(_SHORT, texts) else whole, texts))


def _are(numbers: re.Pattern[str], texts: list[str]) -> bool:
    if not texts or max(map(len, texts)) > LONGEST:
        return False
    joined = ",".join(texts)
    return joined.count(",") == len(texts) - 1 and numbers.fullmatch(joined) is not None
