"""Amounts as people write them: bytes and spans of time."""

from __future__ import annotations

import re

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_BYTES = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}


def bytes_in(text: str) -> int:
    """Bytes, for example of "256MiB" or "2GB"; raise ValueError."""
    return _amount(text, _BYTES, "a size such as 256MiB")


def seconds_in(text: str) -> int:
    """Seconds, for example of "30d" or "12h"; raise ValueError."""
    return _amount(text, _SECONDS, "a time such as 30d, 12h or 90s")


def _amount(text: str, units: dict[str, int], example: str) -> int:
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2].lower() not in units:
        raise ValueError(f"{text!r} is not {example}")
    return round(float(found[1]) * units[found[2].lower()])
