"""Shared by the comparisons with other libraries' scales: calls of a tool, functions copied from sources that cannot be
imported, and counts of equal and of different results, by name."""

import __future__
import ast
import pathlib
import subprocess
import sys
import types

import numpy as np

TOP = {"e4m3": 448.0, "e5m2": 57344.0}
LARGEST, SMALLEST = np.array([0x7F7FFFFF, 0x00800000], np.uint32).view(np.float32)  # of the normal numbers


def taken(path, *names, **given):
    """Functions and classes of a file by their names, run beside `given`, the names they need from other files. Of a class
    those methods that are named too ("Class.method"); what decorates them is left out."""
    body = []
    for node in ast.parse(pathlib.Path(path).read_text()).body:
        if getattr(node, "name", None) not in names:
            continue
        node.decorator_list = []
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if f"{node.name}.{getattr(part, 'name', '')}" in names]
        body.append(node)
    assert {node.name for node in body} == {name for name in names if "." not in name}, f"{path} has changed"
    # Annotations name modules that are not installed.
    code = compile(ast.Module(body, []), str(path), "exec", flags=__future__.annotations.compiler_flag)
    scope = dict(given)
    exec(code, scope)
    return types.SimpleNamespace(**scope)


def words(x):
    return " ".join(map(str, bits(x).ravel().tolist()))


def bits(x):
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def floats(numbers):
    return np.asarray(numbers, dtype=np.uint32).view(np.float32)


def asked(lines, tool=1):
    """Answers of the tool that is argument 1 or another one."""
    said = subprocess.run([sys.argv[tool]], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = said.stdout.splitlines()
    assert len(answers) == len(lines), (len(answers), len(lines))
    return [np.array(answer.split(), dtype=np.uint32) for answer in answers]


def same(left, right):
    """Bits; a NaN is a NaN."""
    return (bits(left) == bits(right)) | (np.isnan(left) & np.isnan(right))


class Tally:
    """Counts of equal results, and of different ones by name."""

    def __init__(self):
        self.equal, self.named, self.example = 0, {}, {}

    def add(self, ours, theirs, names, what):
        """names: for each name the mask where it applies, and their and our values there. what(i) describes input i."""
        fits = same(ours, theirs)
        self.equal += int(np.count_nonzero(fits))
        for name, (where, their_own, our_own) in names.items():
            here = ~fits & where & same(theirs, their_own) & same(ours, our_own)
            fits |= here
            self.named[name] = self.named.get(name, 0) + int(np.count_nonzero(here))
            if here.any() and name not in self.example:
                i = int(np.argmax(here))
                self.example[name] = f"{what(i)}: {ours[i]:.9g}, theirs {theirs[i]:.9g}"
        assert fits.all(), (what(int(np.argmin(fits))), ours[np.argmin(fits)], theirs[np.argmin(fits)])

    def say(self, what):
        parts = [f"{number} {name}" for name, number in self.named.items() if number]
        print(f"equal: {self.equal} {what}" + (f"; not: {', '.join(parts)}" if parts else ""))
        for name, example in self.example.items():
            print(f"  {name}: {example}")


def amaxes(draw, shape):
    """Magnitudes of every exponent, most of them ordinary, with zeros, infinities and NaNs."""
    made = draw.integers(0, 0x7F800000, shape, dtype=np.uint32)
    ordinary = draw.random(shape) < 0.7
    made[ordinary] = (made[ordinary] & 0x7FFFFF) | (draw.integers(100, 150, ordinary.sum(), dtype=np.uint32) << 23)
    for share, word in ((0.05, 0), (0.01, 0x7F800000), (0.01, 0x7FFFFFFF), (0.01, 1), (0.01, 0x7F7FFFFF)):
        made[draw.random(shape) < share] = word
    return made
