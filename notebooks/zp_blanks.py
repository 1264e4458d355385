"""Blanks: functions in a lesson that the reader writes, checked by the judge of the puzzles."""

import pathlib
import signal
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).with_name("puzzles")))
from judge.verdict import Judge, Wrong, bits, require_array, require_tuple, shown  # noqa: E402

SECONDS = 5


class Unwritten(Exception):
    """The blank is still three dots."""


def _has_dots(code):
    """Whether a function still contains the three dots of its blank."""
    return any(part is ... or (hasattr(part, "co_consts") and _has_dots(part)) for part in code.co_consts)


def _compare(name, about, got, want):
    """Raises Wrong at the first difference from the expected result."""
    if isinstance(want, tuple) and want and isinstance(want[0], np.ndarray):
        require_tuple(name, f"{len(want)} arrays", got, len(want))
        for number, (one, other) in enumerate(zip(got, want)):
            _compare(name, f"{about}, array {number} of the result", one, other)
    elif isinstance(want, dict):
        if not isinstance(got, dict) or set(got) != set(want):
            raise Wrong(f"case {about}: it returned {sorted(got) if isinstance(got, dict) else type(got).__name__}, "
                        f"expected a dictionary with the keys {sorted(want)}")
        for key, value in want.items():
            _compare(name, f"{about}, {key}", got[key], value)
    elif isinstance(want, (np.ndarray, np.floating)):
        got = np.asarray(got) if isinstance(got, np.floating) else got
        want = np.asarray(want)
        require_array(name, "a result", got, want, [])
        a, b = got.ravel(), want.ravel()
        other = bits(a) != bits(b)
        if other.any():
            at = int(np.argmax(other))
            raise Wrong(f"case {about}, element [{at}]\n  got  {shown(a[at])}\n  want {shown(b[at])}")
    elif got is None:
        raise Wrong(f"case {about}: it returned nothing")
    elif type(got) is not type(want) and not np.isscalar(got):
        raise Wrong(f"case {about}: it returned {type(got).__name__}, expected {type(want).__name__}")
    elif got != want:
        raise Wrong(f"case {about}\n  got  {got}\n  want {want}")


def verdict(function, solution, cases):
    """Raises Wrong or Unwritten; returns the number of cases with the expected result."""
    if _has_dots(function.__code__):
        raise Unwritten
    judge = Judge(function.__name__, function)

    def late(*_):
        raise Wrong(f"no result after {SECONDS} s; look for an endless loop")
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with np.errstate(all="ignore"):
            for about, *arguments in cases:
                got, _ = judge.call(*arguments)
                _compare(function.__name__, about, got, solution(*arguments))
    except (Wrong, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: B902  (any error of the reader's code)
        raise Wrong(f"case {about}: {type(error).__name__}: {error}") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return len(cases)


class Blanks:
    """The blanks of a lesson: each solution with its cases, tuples of a description and arguments.

    As a decorator it prints the verdict on the reader's function. A lesson continues with the
    reader's function if it is correct, and with the solution otherwise.
    """

    def __init__(self, blanks):
        self.blanks = {solution.__name__: (solution, cases) for solution, cases in blanks.items()}

    def __call__(self, function):
        name = function.__name__
        solution, cases = self.blanks[name]
        function.__globals__[name] = function  # it may be recursive
        try:
            count = verdict(function, solution, cases)
        except Unwritten:
            print(f"{name}: not written yet; the lesson continues with its own")
        except Wrong as wrong:
            print(f"{name}: wrong; the lesson continues with its own\n  {wrong.text}")
        else:
            print(f"{name}: correct, {count} cases, every bit")
            return function
        return solution
