#!/usr/bin/env python3
"""calibration_python_test.py TOOL: ModelOpt's rules of percentile, entropy and fake quantization, written out here over
Python's own numbers, and fp8 over ml_dtypes where it is installed (otherwise a message)."""

import math
import random
import struct
import subprocess
import sys


def fp32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def bits(value):
    return struct.unpack("I", struct.pack("f", value))[0]


def value(word):
    return struct.unpack("f", struct.pack("I", word))[0]


def histogram(draw, bins):
    """Magnitudes of a bell with a tail, in bins; now and then only a few of them."""
    count = [0] * bins
    if draw.random() < 0.3:
        for _ in range(draw.randrange(1, 30)):
            count[draw.randrange(bins)] += draw.randrange(1, 50)
        return count
    spread = bins / draw.choice([2, 4, 10])
    for _ in range(4000):
        at = int(abs(draw.gauss(0, spread)))
        count[min(at, bins - 1)] += 1
    return count


def percentile(count, p):
    """The cumulated shares, added up one by one; the left edge of the first that is not below p / 100."""
    total, share = sum(count), 0.0
    for k, here in enumerate(count):
        share += here / total
        if share >= p / 100:
            return k
    return len(count) - 1


def entropy(count, levels):
    """Divergences of every clip, of normalized distributions."""
    bins = count[:]
    bins[0] = bins[1]
    found = []
    for i in range(levels, len(bins) + 1):
        level = [j * levels // i for j in range(i)]
        elements, used = [0] * levels, [0] * levels
        for j in range(i):
            if bins[j]:
                elements[level[j]] += bins[j]
                used[level[j]] += 1
        p = bins[:i]
        p[-1] += sum(bins[i:])
        q = [elements[level[j]] / used[level[j]] if bins[j] else 0 for j in range(i)]
        all_p, all_q = sum(p), math.fsum(q)
        divergence = 0.0
        for j in range(i):
            if p[j]:
                divergence += math.inf if not q[j] else p[j] / all_p * math.log((p[j] / all_p) / (q[j] / all_q))
        found.append(divergence)
    return found


def integer(x, amax, number):
    if amax <= 2**-24:
        return 0.0
    top = 2 ** (number - 1) - 1
    scale = fp32(top / amax)
    return fp32(max(-top, min(top, round(fp32(x * scale)))) / scale)


def main():
    draw = random.Random(7)
    lines, checks = [], []
    for _ in range(200):
        count, p = histogram(draw, draw.choice([256, 400])), draw.choice([99.99, 99.9, 99, 90, 50])
        lines.append(f"percentile {p} " + " ".join(map(str, count)))
        checks.append(("percentile", count, p))
    for _ in range(25):
        count = histogram(draw, draw.choice([256, 320]))
        if sum(count[1:]) == 0:
            continue
        lines.append("entropy 8 " + " ".join(map(str, count)))
        checks.append(("entropy", count, 128))
    xs = [fp32(draw.gauss(0, 1) * 2.0 ** draw.randrange(-10, 10)) for _ in range(3000)]
    for number in (2, 4, 8, 16):
        for amax in (fp32(draw.random() + 0.1), fp32(100 * draw.random()), 2.0**-24, 2.0**-20):
            lines.append(f"integer {number} {bits(amax)} " + " ".join(str(bits(x)) for x in xs))
            checks.append(("integer", amax, number))
    try:
        import ml_dtypes
        import numpy
        for amax in (fp32(draw.random() + 0.1), fp32(1000 * draw.random()), 448.0):
            lines.append(f"e4m3 0 {bits(amax)} " + " ".join(str(bits(x)) for x in xs))
            checks.append(("e4m3", amax, 0))
    except ImportError:
        print("not compared: fp8, for ml_dtypes or numpy is not here (pip install ml_dtypes)")

    said = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    near = {"percentile": 0, "entropy": 0}
    done = {}
    for answer, (what, first, second) in zip(said.stdout.splitlines(), checks):
        done[what] = done.get(what, 0) + 1
        if what == "percentile":
            k = int(float(answer))
            if k != percentile(first, second):
                # A share that is p but for the roundings of its sum.
                total = sum(first)
                assert sum(first[:k + 1]) / total >= second / 100 - 1e-12, (answer, second)
                assert sum(first[:k]) / total <= second / 100 + 1e-12, (answer, second)
                near[what] += 1
        elif what == "entropy":
            found = entropy(first, second)
            least = min(found)
            last = max(i for i, d in enumerate(found) if d == least) + second
            if int(float(answer)) != last:
                # Two clips whose divergences differ by less than the roundings of either sum.
                assert abs(found[int(float(answer)) - second] - least) < 1e-12, (answer, last)
                near[what] += 1
        elif what == "integer":
            got = [value(int(word)) for word in answer.split()]
            for x, y in zip(xs, got):
                assert y == integer(x, first, second), (x, first, second, y)
        else:
            scale = numpy.float32(448) / numpy.float32(first)
            scaled = numpy.clip(numpy.array(xs, numpy.float32) * scale, -448, 448)
            want = scaled.astype(ml_dtypes.float8_e4m3fn).astype(numpy.float32) * (numpy.float32(1) / scale)
            got = numpy.array([int(word) for word in answer.split()], numpy.uint32).view(numpy.float32)
            assert (got == want).all()
    assert len(said.stdout.splitlines()) == len(checks)
    # Of 4,000 elements 99.9 % are 3,996, and a tail has bins of one: a share that is p itself is no rarity.
    assert near["percentile"] <= 40 and near["entropy"] <= 5, near
    print("equal: " + ", ".join(f"{count} x {what}" for what, count in done.items()) +
          f"; chosen otherwise within roundings: {near['percentile']} and {near['entropy']}")


main()
