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


# The sets of newton_schulz.hpp, as many steps as in the note.
muon_sets = {
    "simple": [(3.4445, -4.7750, 2.0315)] * 5,
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
    "polar_express": [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250),
                      (3.2856, -2.4153, 0.4853), (2.2779, -1.6198, 0.3985)],
    "polar_express_dion": [(8.156554524902461, -22.48329292557795, 15.878769915207462),
                           (4.042929935166739, -2.808917465908714, 0.5000178451051316),
                           (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
                           (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
                           (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)],
    "cans": [(8.4703, -25.1081, 18.6293), (4.1828, -3.1087, 0.5806), (3.9619, -2.9541, 0.5630),
             (3.2866, -2.4647, 0.5074), (2.2737, -1.6447, 0.4162)],
    "aol": [(4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254),
            (2.7215, -3.0494, 1.3169)],
    "deepseekv4": [(3.4445, -4.7750, 2.0315)] * 8 + [(2, -1.5, 0.5)] * 2,
}


def iterated(name, x):
    """The singular value of the result of Newton-Schulz for one of X."""
    for a, b, c in muon_sets[name]:
        x = x * (a + x * x * (b + x * x * c))
    return x


def image(name, low):
    """The least and the largest singular value of results for those from low to 1, on a grid."""
    values = [iterated(name, low ** (i / 100000)) for i in range(100001)]
    return min(values), max(values)


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
print(f"[Muon:momentum]   1/(1 - 0.95) = {1 / (1 - 0.95):.0f}; weights of the gradient with nesterov: {1 - 0.95**2:.4f}, {1 + 0.95:.2f}")
for name, polynomials in muon_sets.items():
    slope = math.prod(a for a, _, _ in polynomials)
    hundredth, thousandth = image(name, 0.01), image(name, 0.001)
    print(f"[Muon:interval]   {name}, {len(polynomials)} steps: {slope:.0f}; [{hundredth[0]:.3f}, {hundredth[1]:.3f}] from 0.01, "
          f"[{thousandth[0]:.3f}, {thousandth[1]:.3f}] from 0.001")
grid = [0.01 ** (i / 100000) for i in range(100001)]
apart = max(abs(iterated("polar_express", x) - iterated("polar_express_dion", x)) for x in grid)
print(f"[Muon:interval]   polar_express and polar_express_dion from 0.01: up to {apart:.3f} apart")
print(f"[Muon:slice]      (2, 1)/sqrt(5) = {2 / math.sqrt(5):.4f}, {1 / math.sqrt(5):.4f}; (1, 1)/sqrt(2) = {math.sqrt(0.5):.4f}")
print(f"[Muon:scale]      4096 x 1024: sqrt(max(r, c)) = {math.sqrt(4096):.0f}, sqrt(r/c) = {math.sqrt(4096 / 1024):.0f}; "
      f"1000 rows padded to 1024: {math.sqrt(1024 / 1000):.4f} times")
parts = Fraction(129, 128) ** 2, Fraction(1, 256)
print(f"[Muon:gram]       one rank: {float(bf16(sum(parts)))}; two ranks, bf16: {float(bf16(bf16(parts[0]) + bf16(parts[1])))}")
