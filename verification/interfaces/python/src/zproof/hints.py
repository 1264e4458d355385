"""A hint at the cause of a difference: the harness's own hint, for arrays of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _zproof
from .elements import Elements, read_array

__all__ = ["hint"]


def hint(actual: Elements, expected: Elements, *, before: Any = None, inputs: Mapping[str, Any] | None = None,
         factors: Mapping[str, float] | None = None) -> str:
    """One line about all elements that differ, or "" if no rule fits them all.

    before: what actual held before; inputs: other arrays by name; factors: numbers by their meaning ("the number of
    micro-batches"). Arrays of another type or length are ignored.
    """
    form = expected.format
    if not form.is_float or actual.format.name != form.name:
        return ""

    def fitting(value: Any, what: str) -> np.ndarray | None:
        if value is None:
            return None
        array = read_array(value, what, dtype=form.name, to_host=True, to_dense=True)
        return array.to_bytes() if array.format.name == form.name else None

    others = [(name, words) for name, value in (inputs or {}).items()
              if (words := fitting(value, f"inputs[{name!r}]")) is not None]
    named = [(name, float(value)) for name, value in (factors or {}).items()]
    held = fitting(before, "before")
    return _zproof.hint(form.file_name, expected.to_bytes(), actual.to_bytes(), held, others, named)
