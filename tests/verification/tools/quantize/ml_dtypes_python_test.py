#!/usr/bin/env python3
"""ml_dtypes_python_test.py TOOL: every code and many values through the casts of ml_dtypes and those of this project.

ml_dtypes does not saturate: its casts are those of the contract's overflow `nonfinite`, and of values that were brought
into range before the saturating ones. Its e8m0 is rounded to nearest, the contract's up: both are the same power of
two, or the one of the contract is the next."""

import subprocess
import sys

try:
    import ml_dtypes
    import numpy as np
except ImportError:
    print("skipped: ml_dtypes or numpy is not here (pip install ml_dtypes)")
    sys.exit(77)

DRAWN = 1000000
FORMATS = {"bf16": (ml_dtypes.bfloat16, np.uint16), "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
           "e5m2": (ml_dtypes.float8_e5m2, np.uint8), "e8m0": (ml_dtypes.float8_e8m0fnu, np.uint8)}


def asked(*lines):
    text = "".join(f"{words} {' '.join(map(str, numbers.tolist()))}\n" for words, numbers in lines)
    said = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) == len(lines), (len(said), len(lines))
    return [np.array(line.split(), dtype=np.uint32) for line in said]


def widened(name, codes):
    """fp32 of codes, by ml_dtypes."""
    theirs, word = FORMATS[name]
    return codes.astype(word).view(theirs).astype(np.float32)


def same(left, right):
    """Bits; a NaN is a NaN."""
    return (left.view(np.uint32) == right.view(np.uint32)) | (np.isnan(left) & np.isnan(right))


def expect(what, fits):
    assert fits.all(), f"{what}: {np.count_nonzero(~fits)} of {fits.size} differ, first at {np.argmin(fits)}"
    print(f"equal: {what}, {fits.size}")


def every_code():
    codes = {name: np.arange(np.iinfo(word).max + 1, dtype=np.uint32) for name, (_, word) in FORMATS.items()}
    found = asked(*[(f"widen {name}", codes[name]) for name in FORMATS])
    for name, bits in zip(FORMATS, found):
        expect(f"every code of {name}", same(bits.view(np.float32), widened(name, codes[name])))


def casts(what, x):
    """x: fp32 values."""
    names = ["bf16", "nonfinite_e4m3", "nonfinite_e5m2", "e4m3", "e5m2", "e8m0"]
    found = dict(zip(names, asked(*[(f"cast {name}", x.view(np.uint32)) for name in names])))
    with np.errstate(all="ignore"):  # NumPy warns of overflows, which are tested here
        for name, codes in found.items():
            form = name.removeprefix("nonfinite_")
            theirs, word = FORMATS[form]
            if name == "e8m0":
                continue
            given = x
            if name in ("e4m3", "e5m2"):
                top = np.float32({"e4m3": 448, "e5m2": 57344}[name])
                given = np.clip(x, -top, top)
            made = given.astype(theirs).view(word).astype(np.uint32)
            expect(f"{what} cast to {name}", same(widened(form, codes), widened(form, made)))
        nearest = np.abs(x).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8).astype(np.uint32)
    ours = found["e8m0"]
    number = np.isfinite(x) & (np.abs(x) <= np.float32(2.0**127)) & (np.abs(x) >= np.float32(2.0**-127))
    below = widened("e8m0", nearest[number]) < np.abs(x[number])
    expect(f"{what} cast to e8m0, up where the nearest is below", ours[number] == nearest[number] + below)
    expect(f"{what}: e8m0 of NaN", ours[np.isnan(x)] == 255)
    print(f"of these the nearest is another one: {np.count_nonzero(below)}")
    assert below.any()


def main():
    every_code()
    casts("all bf16", (np.arange(65536, dtype=np.uint32) << 16).view(np.float32))
    draw = np.random.default_rng(26)
    words = draw.integers(0, 2**32, DRAWN, dtype=np.uint32)
    # Half of them of magnitudes that formats of 8 bits have, and some exactly between two codes.
    exponents = draw.integers(100, 146, DRAWN // 2, dtype=np.uint32)
    words[::2] = (words[::2] & np.uint32(0x807FFFFF)) | (exponents << 23)
    words[::8] &= np.uint32(0xFFF80000)
    casts("drawn fp32", words.view(np.float32))


main()
