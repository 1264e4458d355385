"""Two arrays of one shape and format, element by element: how many differ, by how much, and where."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .elements import Elements
from .formats import Format

__all__ = ["Rule", "Comparison", "compare"]

_BINS = ("0", "1", "2", "3-15", "16+")


@dataclass(frozen=True)
class Rule:
    """The allowed difference: none (the default), ulps, an absolute bound, or rtol and atol.

    Exactly one of the three is given, or none. Elements of different sign are never within `ulps`; NaN is within
    nothing, unless equal_nan allows NaN against NaN.
    """

    ulps: int | None = None
    bound: np.ndarray | float | None = None
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False

    @property
    def exact(self) -> bool:
        """Nothing may differ."""
        return self.bound is None and not self.ulps and not self.rtol and not self.atol


@dataclass
class Comparison:
    """Result of a comparison; indices count from 0 in row-major order.

    greatest_absolute, greatest_relative: (value, index) of the elements that differ; relative to the expected one, NaN
        where one of both is NaN.
    ulps: elements by their distance in units in the last place, as _BINS; of floats alone, and if some differ.
    """

    numel: int
    format: Format
    differing: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    greatest_absolute: tuple[np.floating | float, int] = (0.0, -1)
    greatest_relative: tuple[np.floating | float, int] = (0.0, -1)
    allowed: tuple[float, float] = (0.0, 0.0)
    ulps: tuple[int, ...] = (0, 0, 0, 0, 0)
    sign_or_nan: int = 0
    largest_ulps: tuple[int, int] = (0, -1)
    both_nan: int = 0

    @property
    def equal(self) -> bool:
        return self.differing.size == 0

    def histogram(self) -> str:
        bins = "  ".join(f"{name}: {count}" for name, count in zip(_BINS, self.ulps))
        return f"{bins}  sign or NaN: {self.sign_or_nan}  largest {self.largest_ulps[0]}"


def _distances(format: Format, actual: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Units in the last place between floats of one sign, and where that is no distance (another sign, or NaN)."""
    sign = format.word.type(1 << (8 * format.word.itemsize - 1))
    nan_a, nan_e = format.is_nan(actual), format.is_nan(expected)
    apart = (((actual ^ expected) & sign) != 0) | (nan_a != nan_e)
    a, e = actual & ~sign, expected & ~sign  # of one sign, bits are ordered like the numbers
    steps = np.where(a > e, a - e, e - a).astype(np.uint64)
    steps[nan_a & nan_e] = 0
    return steps, apart & ~(nan_a & nan_e)


def _absolute(format: Format, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|actual - expected|; infinities that are equal are 0 apart."""
    if format.word.kind == "b":
        return (actual != expected).astype(np.longdouble)
    if not format.is_float:
        whole = np.uint64 if format.word.kind == "u" else np.int64
        high = np.maximum(actual, expected).astype(whole).view(np.uint64)
        return (high - np.minimum(actual, expected).astype(whole).view(np.uint64)).astype(np.longdouble)
    wide = np.longdouble if format.name == "fp64" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        a, e = format.values(actual).astype(wide), format.values(expected).astype(wide)
        return np.where(a == e, wide(0), np.abs(a - e))


def _outside(format: Format, rule: Rule, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Which elements differ more than the rule allows; a NaN always does without equal_nan."""
    nan_a, nan_e = format.is_nan(actual), format.is_nan(expected)
    if rule.bound is not None:
        within = _absolute(format, actual, expected) <= rule.bound
    elif rule.rtol is not None and rule.atol is not None:
        with np.errstate(invalid="ignore"):
            sizes = np.abs(format.values(expected).astype(np.float64))
            allowed = np.where(np.isinf(sizes), rule.atol, rule.atol + rule.rtol * sizes)
            within = _absolute(format, actual, expected) <= allowed
    elif rule.ulps and format.is_float:
        steps, apart = _distances(format, actual, expected)
        infinite = np.isinf(format.values(actual)) != np.isinf(format.values(expected))
        within = (steps <= np.uint64(rule.ulps)) & ~apart & ~infinite
    else:
        within = actual == expected
    return np.where(nan_a | nan_e, ~(nan_a & nan_e & rule.equal_nan), ~within)


def _greatest(values: np.ndarray, at: np.ndarray) -> tuple[np.floating, int]:
    """The first of the largest; NaN is larger than everything."""
    nans = np.flatnonzero(np.isnan(values))
    best = int(nans[0]) if nans.size else int(np.argmax(values))
    return values[best], int(at[best])


def compare(actual: Elements, expected: Elements, rule: Rule) -> Comparison:
    """Compares two arrays of one format and shape under a rule. Errors: ValueError if they are not."""
    if actual.format.name != expected.format.name or actual.shape != expected.shape:
        raise ValueError(f"{actual.format.name} of shape {actual.shape} and {expected.format.name} of shape "
                         f"{expected.shape} have no elements in common (they cannot be compared); convert one")
    form = expected.format
    a, e = np.ravel(actual.bits), np.ravel(expected.bits)
    found = Comparison(numel=e.size, format=form, allowed=(rule.atol or 0.0, rule.rtol or 0.0))
    if rule.bound is not None and np.ndim(rule.bound):
        rule = Rule(bound=np.ravel(rule.bound), equal_nan=rule.equal_nan)
    found.differing = np.flatnonzero(_outside(form, rule, a, e))
    if not found.differing.size:
        return found
    if form.is_float:
        steps, apart = _distances(form, a, e)
        edges = ((0, 0), (1, 1), (2, 2), (3, 15), (16, 2**64 - 1))
        found.ulps = tuple(int(((steps >= np.uint64(low)) & (steps <= np.uint64(high)) & ~apart).sum())
                           for low, high in edges)
        found.sign_or_nan = int(apart.sum())
        steps = np.where(apart, np.uint64(0), steps)
        if steps.max() > 0:
            found.largest_ulps = (int(steps.max()), int(np.argmax(steps)))
    at = found.differing
    found.both_nan = int((form.is_nan(a[at]) & form.is_nan(e[at])).sum())
    absolute = _absolute(form, a[at], e[at])
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = absolute / np.abs(form.values(e[at]).astype(np.float64))
    relative[absolute == 0] = 0  # zeros of both signs
    found.greatest_absolute = _greatest(absolute, at)
    found.greatest_relative = _greatest(relative, at)
    return found
