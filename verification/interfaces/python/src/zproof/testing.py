"""Assertions about the buffers of a step, called as torch.testing.assert_close is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .comparison import Rule, compare
from .difference_text import Difference, difference_of, message_of
from .elements import Elements, is_array, read_array
from .formats import FORMATS
from .hints import hint

__all__ = ["assert_step_close"]


@dataclass(frozen=True)
class _Options:
    rule: Rule
    bound: Any
    dtype: str | None
    check_dtype: bool
    check_device: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool
    before: Any
    inputs: Mapping[str, Any]
    factors: Mapping[str, float]


def assert_step_close(
    actual: Any,
    expected: Any,
    *,
    ulps: int | None = None,
    bound: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    dtype: str | None = None,
    check_dtype: bool = True,
    check_device: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    allow_subclasses: bool = True,
    before: Any = None,
    inputs: Mapping[str, Any] | None = None,
    factors: Mapping[str, float] | None = None,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Asserts that two sets of buffers are equal, bit for bit by default.

    Both sides are an array, a number, or mappings and sequences of them, as deep as they go: the buffers of a step by
    their names. An array is one of numpy (``ml_dtypes`` too), a PyTorch tensor in host memory, or anything else with
    ``__dlpack__``. It may be read-only and have any strides, and is only read. The two sides may come from different
    libraries; names, shapes and types of elements have to be the same.

    Of ``ulps``, ``bound`` and ``rtol`` with ``atol`` at most one is given. A NaN fails every comparison.

    Args:
        actual: computed values.
        expected: expected values.
        ulps: largest distance in units in the last place between two floats of one sign, neither infinite; integers are
            equal. 0 is the default: every bit is the same, and -0 is not +0.
        bound: ``|actual - expected| <= bound``: a number, an array, or a mapping or sequence like ``expected``.
        rtol, atol: ``|actual - expected| <= atol + rtol * |expected|``; both or neither.
        equal_nan: NaN equals NaN.
        dtype: "bf16", "fp16", "e4m3" or "e5m2": unsigned integers of that size are floats of this format.
        check_dtype: if False, elements of different types are compared by their values, which ``ulps`` cannot.
        check_device, check_layout: if False, arrays on a device, or sparse ones, are copied first.
        check_stride: strides have to be the same too.
        allow_subclasses: if False, both have to be of the very same class.
        before: for the hint of a message, ``actual`` before the step, like ``actual``.
        inputs: for the hint, other arrays by name, such as the gradient.
        factors: for the hint, numbers that a wrong result may have been multiplied or divided by, by their meaning.
        msg: the message instead of the usual one, or a function that makes it of that.

    Raises:
        AssertionError: a difference is too large. The message starts like those of ``torch.testing.assert_close`` (PyTorch
            2.15), whose arguments these are, and goes on with distances in units in the last place, the first
            difference in bits, and a hint at the cause.
        ValueError: arguments that contradict one another, or nothing to compare.
        TypeError: objects that cannot be compared.
    """
    __tracebackhide__ = True
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_step_close was given {'rtol' if atol is None else 'atol'} alone (a tolerance has two "
                         "parts); give both rtol and atol, or none")
    given = [name for name, value in (("ulps", ulps), ("bound", bound), ("rtol and atol", rtol)) if value is not None]
    if len(given) > 1:
        raise ValueError(f"assert_step_close was given {' and '.join(given)} (they contradict each other); give "
                         "one of them")
    if ulps is not None and (isinstance(ulps, bool) or not isinstance(ulps, (int, np.integer))):
        raise TypeError(f"ulps is {ulps!r} (the distance is a whole number); give an int")
    for name, value in (("ulps", ulps), ("rtol", rtol), ("atol", atol)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value} (no distance is negative); give 0 or more")
    if dtype is not None and dtype not in FORMATS:
        raise ValueError(f"dtype {dtype!r} is no format of floats (the words could not be read); give one of "
                         + ", ".join(FORMATS))
    rule = Rule(ulps=None if ulps is None else int(ulps), rtol=rtol, atol=atol, equal_nan=equal_nan)
    options = _Options(rule, bound, dtype, check_dtype, check_device, check_layout, check_stride, allow_subclasses,
                       before, inputs or {}, factors or {})
    differences: list[Difference] = []
    count = _walk(actual, expected, bound, before, (), options, differences)
    if count == 0:
        raise ValueError("actual and expected have no items (there are no elements); give arrays")
    if differences:
        message = message_of(differences, count)
        raise AssertionError(message if msg is None else msg(message) if callable(msg) else msg)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)) and not is_array(value)


def _named(what: str, where: tuple[Any, ...]) -> str:
    return what + "".join(f"[{key!r}]" for key in where)


def _part(whole: Any, key: Any, what: str, where: tuple[Any, ...]) -> Any:
    """What belongs to an item of a mapping or sequence, or the one thing for all of them."""
    if isinstance(whole, Mapping) or _is_sequence(whole):
        try:
            return whole[key]
        except (KeyError, IndexError):
            if what == "before":
                return None
            raise ValueError(f"{_named(what, where)} has nothing for {key!r} (every item needs a bound); "
                             "give a number or an array for every item") from None
    return whole


def _walk(actual: Any, expected: Any, bound: Any, before: Any, where: tuple[Any, ...], options: _Options,
          differences: list[Difference]) -> int:
    """Compares both; returns how many pairs there were."""
    if not options.allow_subclasses and type(actual) is not type(expected):
        raise TypeError(f"{_named('actual', where)} is a {type(actual).__name__} and {_named('expected', where)} a "
                        f"{type(expected).__name__} (allow_subclasses=False wants one class); convert one")
    count = 0
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing = [key for key in expected if key not in actual]
        additional = [key for key in actual if key not in expected]
        if missing or additional:
            differences.append(Difference(where, "The keys of the mappings do not match:", [
                f"{_named('actual', where)} lacks {missing or 'nothing'}, and has {additional or 'nothing'} besides"]))
            count = 1
        keys: list[Any] = [key for key in expected if key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            differences.append(Difference(where, f"The length of the sequences mismatch: {len(actual)} != "
                                           f"{len(expected)}"))
            count = 1
        keys = list(range(min(len(actual), len(expected))))
    else:
        return _compare_pair(actual, expected, bound, before, where, options, differences)
    for key in keys:
        count += _walk(actual[key], expected[key], _part(bound, key, "bound", where),
                       _part(before, key, "before", where), (*where, key), options, differences)
    return count


def _bound_of(bound: Any, shape: tuple[int, ...], where: tuple[Any, ...]) -> Any:
    values = read_array(bound, _named("bound", where)).values().astype(np.float64)
    if values.ndim and values.shape != shape:
        raise ValueError(f"{_named('bound', where)} has the shape {values.shape}, not {shape} (every element needs its "
                         "own); give a number or an array of that shape")
    if not (values >= 0).all():
        raise ValueError(f"{_named('bound', where)} has elements below 0 or NaN (no difference is allowed by them); "
                         "give 0 or more")
    return values if values.ndim else float(values)


def _by_value(array: Elements) -> Elements:
    """As fp64, for types that differ."""
    return read_array(np.asarray(array.values(), np.float64))


def _compare_pair(actual: Any, expected: Any, bound: Any, before: Any, where: tuple[Any, ...], options: _Options,
                  differences: list[Difference]) -> int:
    if actual is None and expected is None:
        return 1
    for value in (actual, expected):
        if not is_array(value) and not isinstance(value, (bool, int, float)):
            raise TypeError(f"{_named('actual', where)} is a {type(actual).__name__} and {_named('expected', where)} a "
                            f"{type(expected).__name__} (they cannot be compared); give arrays or numbers, or mappings "
                            "or sequences of them on both sides")

    def read(value: Any, what: str) -> Elements:
        return read_array(value, _named(what, where), dtype=options.dtype, to_host=not options.check_device,
                          to_dense=not options.check_layout)

    got, want = read(actual, "actual"), read(expected, "expected")
    if options.dtype is not None and options.dtype not in (got.format.name, want.format.name) and not where:
        raise ValueError(f"dtype is {options.dtype!r}, and actual has elements of {got.format.name} (nothing could be "
                         f"read as {options.dtype}); leave it out")

    def attribute(name: str, of_actual: Any, of_expected: Any) -> int:
        differences.append(Difference(where, f"The values for attribute '{name}' do not match: {of_actual} != "
                                       f"{of_expected}."))
        return 1

    if got.shape != want.shape:
        return attribute("shape", got.shape, want.shape)
    if got.format.name != want.format.name:
        if options.check_dtype:
            return attribute("dtype", got.format.name, want.format.name)
        if options.rule.ulps:
            raise ValueError(f"{_named('actual', where)} is {got.format.name} and {_named('expected', where)} "
                             f"{want.format.name} (ulps differ between two types); give bound, or "
                             "rtol and atol")
        got, want = _by_value(got), _by_value(want)
    if options.check_stride and got.strides != want.strides:
        return attribute("stride()", got.strides, want.strides)
    rule = options.rule
    if bound is not None:
        rule = Rule(bound=_bound_of(bound, want.shape, where), equal_nan=rule.equal_nan)
    found = compare(got, want, rule)
    if not found.equal:
        differences.append(difference_of(found, got, want, rule, where,
                                hint(got, want, before=before, inputs=options.inputs, factors=options.factors)))
    return 1
