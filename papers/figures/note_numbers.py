#!/usr/bin/env python3
"""note_numbers.py    computes the numbers that the notes quote; ../README.md shows the output, and a test runs it there.

Python's floats are fp64 and struct rounds them to fp32, to nearest even; fractions round once where fp64 would twice.
"""

import math
import struct
from fractions import Fraction


def fp32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def bf16(x):
    """A fraction of moderate size to 8 significant bits, ties to even (as round() has them)."""
    unit = Fraction(2) ** (math.floor(math.log2(x)) - 7)
    return round(x / unit) * unit


def power(b, t):
    """b**t by squaring, from the lowest bit of t up (R5)."""
    result, square = 1.0, b
    while t:
        if t & 1:
            result *= square
        square *= square
        t >>= 1
    return result


def products(b, steps, rounded):
    """How many of the running products b, b*b, ... differ from the powers: in themselves, or as fp32(1 - product)."""
    running, wide, narrow = 1.0, 0, 0
    for t in range(1, steps + 1):
        running = rounded(running * b)
        wide += running != power(b, t)
        narrow += fp32(1 - running) != fp32(1 - power(b, t))
    return wide, narrow


def decay(lw):
    """Decay that theta * f32(1 - lw) applies, divided by lw: [AdamW:additive]."""
    return (1 - fp32(1 - lw)) / lw


beta2 = fp32(0.999)
print(f"[Adam:folded]     1/sqrt(1 - 0.999) = {1 / math.sqrt(1 - 0.999):.1f}")
print(f"[Adam:step]       (1 - 0.9)/sqrt(1 - 0.999) = {(1 - 0.9) / math.sqrt(1 - 0.999):.2f}")
print(f"[Adam:amsgrad]    sqrt((1/2)/(3/4)) = {math.sqrt(0.5 / 0.75):.3f}")
print(f"[Adam:power]      running products that are not the power: {products(beta2, 1000, float)[0]} of the first 1000;")
print(f"                  kept in fp32, corrections that differ: {products(beta2, 100, fp32)[1]} of the first 100")
for lw in (1e-4, 1e-5, 3e-6, 1e-6, 1e-7, 3e-8, 2.9e-8):
    print(f"[AdamW:additive]  l w = {lw:g}: {decay(lw):.4f}")
print(f"[Clip:coef]       1/(1 - 5e-7 + 1e-6) = {1 / (1 - 5e-7 + 1e-6):.7f}")
weights = ", ".join(f"{x:.3g}" for x in (1 - 0.9, 1 - 0.99, 0.9 * (1 - 0.99)))
print(f"[Lion:sign]       weights at the defaults: {weights}")
third = bf16(Fraction(1, 3))
first = bf16(bf16(third + third) + 1)
print(f"[MP:inverse]      bf16, 1/3 + 1/3 + 3/3: {float(first)} divided first, {float(bf16(Fraction(5, 3)))} at the end")
print(f"[FP8:saturate]    1 + 2^-4 + 2^-10 to 3 bits after the point: {round((1 + 2**-4 + 2**-10) * 8) / 8}")
print(f"[ZeRO:memory]     175 billion parameters at 4, 8, 12 bytes: {175 * 4}, {175 * 8}, {175 * 12} GB")
above = 2**23 - 1 - 0x8000  # subnormal patterns of one sign whose upper half would not be 0: above the tie, 0x8000
print(f"vcvtneps2bf16     subnormals above the tie, of both signs: 2 * {above:,} = {2 * above:,}")
