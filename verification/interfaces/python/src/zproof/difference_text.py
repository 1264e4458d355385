"""Messages of assertions about differing buffers: the lines of torch.testing first, then those of zeroproof."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .comparison import Comparison, Rule
from .elements import Elements

__all__ = ["Difference", "difference_of", "message_of"]

_MOST_ITEMS = 12  # of a mapping, in a message


@dataclass
class Difference:
    """A differing item: its first line, and the full text."""

    where: tuple[Any, ...]
    first: str
    rest: list[str] = field(default_factory=list)
    share: str = ""


def _index(shape: tuple[int, ...], flat: int) -> str:
    return str(tuple(int(part) for part in np.unravel_index(flat, shape)))


def _number(value: Any, form_is_float: bool) -> str:
    return str(float(value)) if form_is_float else str(int(value))


def difference_of(found: Comparison, got: Elements, want: Elements, rule: Rule, where: tuple[Any, ...],
         hint: str) -> Difference:
    """The lines of one pair of arrays: those of torch.testing first."""
    scalar = want.shape == ()
    exact = rule.exact
    atol, rtol = ("", "")
    if rule.rtol is not None and not exact:
        atol, rtol = f" (up to {rule.atol} allowed)", f" (up to {rule.rtol} allowed)"
    elif rule.bound is not None:
        atol = f" (up to {rule.bound} allowed)" if np.ndim(rule.bound) == 0 else " (up to bound allowed)"
    form, first = found.format, int(found.differing[0])
    flat_got, flat_want = np.ravel(got.bits), np.ravel(want.bits)
    share = f"{found.differing.size} / {found.numel} ({100 * found.differing.size / found.numel:.1f}%)"
    (absolute, at_absolute), (relative, at_relative) = found.greatest_absolute, found.greatest_relative
    shown = [_number(absolute, form.is_float), _number(relative, True)]
    values = f"got {form.shown(flat_got[first])}  want {form.shown(flat_want[first])}"
    what = "Scalars" if scalar else "Tensor-likes"
    lines = Difference(where, f"{what} are not {'equal' if exact else 'close'}!", share=share)
    if scalar:
        lines.rest = ["", f"Absolute difference: {shown[0]}{atol}", f"Relative difference: {shown[1]}{rtol}", values]
    else:
        lines.rest = ["", f"Mismatched elements: {share}",
                     f"Greatest absolute difference: {shown[0]} at index {_index(want.shape, at_absolute)}{atol}",
                     f"Greatest relative difference: {shown[1]} at index {_index(want.shape, at_relative)}{rtol}"]
        last = int(found.differing[-1])
        lines.rest.append(f"First difference at index {_index(want.shape, first)}: {values}")
        if last != first:
            lines.rest.append(f"Last difference at index {_index(want.shape, last)}")
    if form.is_float:
        lines.rest.append(f"Ulps ({form.name}): {found.histogram()}"
                         + (f" ({rule.ulps} allowed)" if rule.ulps is not None else ""))
    if found.both_nan:
        lines.rest.append(f"NaN is compared with NaN in {found.both_nan} of them, which fails without equal_nan=True")
    if hint:
        lines.rest.append(f"Hint: {hint}")
    return lines


def message_of(differences: list[Difference], count: int) -> str:
    """The first item in full; of the others their names and shares."""
    head = differences[0]
    lines = [head.first, *head.rest]
    if head.where:
        lines += ["", f"The failure occurred for item {''.join(f'[{key!r}]' for key in head.where)}"]
    others = differences[1:]
    if others:
        lines.append(f"{len(differences)} of {count} items fail; the others:")
        for item in others[:_MOST_ITEMS]:
            name = "".join(f"[{key!r}]" for key in item.where)
            lines.append(f"  {name} " + (f"mismatched {item.share}" if item.share else item.first))
        if len(others) > _MOST_ITEMS:
            lines.append(f"  and {len(others) - _MOST_ITEMS} more")
    return "\n".join(lines)
