#!/usr/bin/env python3
"""glob_python_test.py TOOL: random patterns and texts, against Python's own fnmatch.fnmatchcase.

Valid patterns differ between releases of Python (3.9 and older raise on an empty range), so a
pattern that raises is one that matches nothing."""

import fnmatch
import random
import re
import subprocess
import sys
import warnings

PAIRS = 60000
SPECIAL = "*?[]!-^\\.&~|"
PLAIN = "abz019_é"


def pattern_of(draw):
    kind = draw.random()
    if kind < 0.5:
        return "".join(draw.choice(SPECIAL + PLAIN) for _ in range(draw.randrange(10)))
    parts = ["layers.1", "layers", "10", ".", "mlp", "*", "?", "[0-9]", "[!0-9]", "[b-a!1]", "[a-]", "[]-a]", "w"]
    if kind < 0.75:
        inside = "".join(draw.choice("abz019!-^]") for _ in range(draw.randrange(1, 8)))
        return draw.choice(["", "*", "a"]) + "[" + inside + "]" + draw.choice(["", "*", "b", "?"])
    return "".join(draw.choice(parts) for _ in range(draw.randrange(1, 7)))


def text_of(draw, pattern):
    """Often the pattern without its wildcards, so that many pairs match."""
    kind = draw.random()
    if kind < 0.4:
        plain = re.sub(r"\[!?\]?[^]]*\]", lambda _: draw.choice(PLAIN + SPECIAL), pattern)
        return plain.replace("*", draw.choice(["", "0", "ab", "."])).replace("?", draw.choice(PLAIN))
    if kind < 0.6:
        return draw.choice(PLAIN + SPECIAL)
    return "".join(draw.choice(PLAIN + ".mlp" + SPECIAL) for _ in range(draw.randrange(8)))


def answer_of(text, pattern):
    try:
        return fnmatch.fnmatchcase(text, pattern)
    except re.error:
        return False


def main():
    warnings.simplefilter("error")
    draw = random.Random(16)
    pairs = []
    for _ in range(PAIRS):
        pattern = pattern_of(draw)
        pairs.append((pattern, text_of(draw, pattern)))
    lines = "".join(f"{pattern}\n{text}\n" for pattern, text in pairs)
    said = subprocess.run([sys.argv[1]], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.split()
    assert len(said) == PAIRS, f"{len(said)} answers to {PAIRS} pairs"
    wrong, yes = 0, 0
    for (pattern, text), ours in zip(pairs, said):
        theirs = answer_of(text, pattern)
        yes += theirs
        if (ours == b"1") != theirs:
            wrong += 1
            if wrong <= 5:
                print(f"{pattern!r} on {text!r}: fnmatchcase says {theirs}")
    print(f"{PAIRS} pairs, {yes} match, {wrong} differ")
    assert yes > PAIRS // 10, "too few pairs match to say much"
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
