"""Checks of non-array arguments before the extension module gets them; one sentence per error."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["whole", "count", "real", "factor", "flag", "word", "table", "listed", "scaler_state"]


def _refused(name: str, value: Any, kind: str) -> TypeError:
    shown = repr(value).replace("\n", " ")
    return TypeError(f"{name} is {shown[:60]} (it must be {kind}); pass one")


def _between(name: str, value: Any, least: int, most: int, kind: str) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise _refused(name, value, kind)
    try:
        number = operator.index(value)
    except TypeError:
        raise _refused(name, value, kind) from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number} (it is out of range); use {least} to {most}")
    return number


def whole(name: str, value: Any, bits: int = 64) -> int:
    """A whole number of so many bits; numpy's integers too."""
    return _between(name, value, -(2**(bits - 1)), 2**(bits - 1) - 1, "a whole number")


def count(name: str, value: Any) -> int:
    """A whole number of 64 bits, 0 or more."""
    return _between(name, value, 0, 2**64 - 1, "a whole number, 0 or more")


def real(name: str, value: Any) -> float:
    """A number; no text, no bool, no array."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) != 0:
        raise _refused(name, value, "a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _refused(name, value, "a number") from None


def factor(name: str, value: Any) -> float:
    """A number that fp32 can hold; NaN and infinity included."""
    number = real(name, value)
    if math.isfinite(number) and abs(number) >= 2.0**128:
        raise ValueError(f"{name} is {number!r} (fp32 cannot hold it); use a smaller number")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False; numpy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise _refused(name, value, "True or False")
    return bool(value)


def word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(name, value, "a word")
    return value


def table(name: str, value: Any) -> dict[str, Any]:
    """A mapping whose keys are texts."""
    if not isinstance(value, Mapping):
        raise _refused(name, value, "a dict")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{name} has the key {key!r} (tensors and settings are found by their names); use a text")
    return dict(value)


def listed(name: str, value: Any) -> list[Any]:
    """The items of a sequence; a text or a dict is not one."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _refused(name, value, "a list")
    return list(value)


def scaler_state(value: Any) -> dict[str, int]:
    """The three counts of a loss scaler."""
    names = ["log2_scale", "growth_tracker", "hysteresis_left"]
    state = table("the state of the loss scaler", value)
    missing = [name for name in names if name not in state]
    if missing:
        raise ValueError(f"the state of the loss scaler has no {missing[0]} (all of it is required); pass "
                         + ", ".join(names))
    return {name: whole(name, state[name], 32) for name in names}
