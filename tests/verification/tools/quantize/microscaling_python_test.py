#!/usr/bin/env python3
"""microscaling_python_test.py SCALES_TOOL CALIBRATION_TOOL: blocks of 32 with a scale of e8m0 by torchao, e8m0 by
PyTorch, and this project's.

The contract's exponent is the least that lets the largest magnitude fit. torchao calls that RCEIL and has three others,
which are checked to be: FLOOR, the standard's, is one less where the magnitude's fraction is above 7/4; EVEN
is one less where it is above 7/4 and below what rounds up to 2 with the bits of the format; CEIL is one more where it
is above 1 and at most 7/4. Other differences are named, and each must be as described:
  logarithm  RCEIL rounds log2 of the quotient up, which next to a power of two is an integer already: values are clipped
  lowest     the other modes do not see subnormal quotients, and there is no exponent below
  infinite   the other modes take an infinite amax for the next power of two
  scale      by exponent code 0 RCEIL scales with 1, and the other modes with 2^126
  nearest    PyTorch casts to e8m0 to nearest, the contract up
Needs torchao and PyTorch; skips without them."""

import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable()
try:
    import numpy as np
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode as Mode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
except (ImportError, OSError) as error:  # OSError: a PyTorch without its libraries
    print(f"skipped: torchao or PyTorch is not here ({error}; pip install torchao torch numpy)")
    sys.exit(77)
from peer_support import TOP, asked, floats, same, words

FORMAT = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
EXPONENT = {"e4m3": 8, "e5m2": 15}  # of the largest value, 7/4 of a power of two
ROUNDS_UP = {"e4m3": 0x780000, "e5m2": 0x700000}  # fractions that are 2 with 3 and with 2 bits
SEVEN_QUARTERS = 0x600000


def codes(x):
    return x.view(torch.uint8).numpy().astype(np.int64)


def largest(draw):
    """Bits of magnitudes: every exponent with the fractions that decide, and drawn ones."""
    next_to = [np.arange(at - 3, at + 4) for at in (4, 0x400000, SEVEN_QUARTERS, 0x700000, 0x780000, 0x7FFFFC)]
    fractions = np.concatenate([*next_to, SEVEN_QUARTERS + np.arange(4, 256, 12), draw.integers(0, 2**23, 40)])
    finite = (np.arange(255)[:, None] << 23 | fractions).ravel()
    return np.concatenate([finite, [0, 0x7F800000, 0x7FFFFFFF]]).astype(np.uint32)


def moved(mode, format, exponent, fraction):
    """By how much torchao's exponent is another one, of magnitudes whose quotient is a normal number."""
    above = fraction > SEVEN_QUARTERS
    if mode == Mode.CEIL:
        return np.where((fraction > 0) & ~above, 1, 0)
    if mode == Mode.EVEN:
        return np.where(above & (fraction < ROUNDS_UP[format]), -1, 0)
    return np.where(above, -1, 0)


def exponents(draw):
    amax = largest(draw)
    x = np.zeros((amax.size, 32), np.float32)
    x[np.arange(amax.size), draw.integers(0, 32, amax.size)] = amax.view(np.float32)
    exponent, fraction = (amax >> 23).astype(np.int64), (amax & 0x7FFFFF).astype(np.int64)
    for format, dtype in FORMAT.items():
        ours = asked([f"mxfp8 {format} {' '.join(map(str, amax.tolist()))}"])[0][:amax.size].astype(np.int64)
        for mode in Mode:
            theirs = codes(to_mx(torch.from_numpy(x), dtype, 32, mode)[0]).ravel()
            equal = theirs == ours
            if mode == Mode.RCEIL:
                # Half a place of log2, whose magnitude is below 128, and the error of log2, are less than 2^-15.
                near = (ours == theirs + 1) & (fraction > SEVEN_QUARTERS) & (fraction < SEVEN_QUARTERS + 0x100)
                assert (equal | near).all(), (format, hex(amax[np.argmin(equal | near)]))
                example = hex(amax[np.argmax(near & (exponent > 200))])
                print(f"equal: {equal.sum()} exponents, {format}, RCEIL; not: {near.sum()} logarithm (amax {example})")
                assert near.sum() < amax.size // 4
                continue
            infinite, lowest = amax == 0x7F800000, exponent <= EXPONENT[format] + 1
            wanted = ours + moved(mode, format, exponent, fraction)
            fits = np.where(infinite, theirs == 255 - EXPONENT[format],
                            np.where(lowest, np.abs(theirs - wanted) <= 1, theirs == wanted))
            fits[amax == 0x7FFFFFFF] = equal[amax == 0x7FFFFFFF]
            assert fits.all(), (format, mode, hex(amax[np.argmin(fits)]))
            print(f"equal: {equal.sum()} exponents, {format}, {mode.name}; not: {(~equal & ~infinite & ~lowest).sum()} "
                  f"as it says, {(~equal & lowest).sum()} lowest, 1 infinite")


def tensors(draw):
    """Codes and their decoded values, of blocks with the same exponent."""
    for format, dtype in FORMAT.items():
        compared, scaled = dict.fromkeys(Mode, 0), 0
        for case in range(40):
            rows, columns = int(draw.integers(1, 40)), 32 * int(draw.integers(1, 9))
            x = draw.normal(size=(rows, columns)) * 2.0 ** draw.integers(-20, 4, (rows, columns))
            x = (x * 2.0 ** draw.integers(-110, 100, (rows, 1))).astype(np.float32)
            if case % 4 == 3:
                x[0] = (x[0].view(np.uint32) & np.uint32(0x83FFFFFF)).view(np.float32)  # exponent code 0
            if case % 4 == 1:
                x[-1, 0] = np.inf
            answer = asked([f"blocks mxfp8 {format} 0 0 {rows} {columns} 1 32 {words(x)}"])[0]
            number = x.size // 32
            scale_inv, ours = floats(answer[:number]), answer[number:number + x.size].reshape(number, 32)
            back = floats(answer[number + x.size:]).reshape(number, 32)
            for mode in Mode:
                exponent, q = to_mx(torch.from_numpy(x), dtype, 32, mode)
                widened = exponent.float().numpy().ravel()
                agree = widened == scale_inv
                lowest = codes(exponent).ravel() == 0
                theirs = codes(q).reshape(number, 32)
                by = np.float32(1 if mode == Mode.RCEIL else 2.0**126)
                clipped = torch.from_numpy(x.reshape(number, 32) * by).clamp(-TOP[format], TOP[format])
                scaled_by = codes(clipped.to(dtype))
                assert (theirs == scaled_by)[agree & lowest].all(), (format, mode, case)
                scaled += int((agree & lowest).sum())
                agree &= ~lowest
                assert (theirs == ours)[agree].all(), (format, mode, case)
                q_back = q.float().numpy().reshape(number, 32) * widened[:, None]
                assert same(q_back, back)[agree].all(), (format, mode, case)
                compared[mode] += 32 * int(agree.sum())
        print(f"equal: codes of {format} by blocks of one exponent: " +
              ", ".join(f"{mode.name} {count}" for mode, count in compared.items()) + f"; not: {scaled} blocks, scale")
        assert compared[Mode.RCEIL] > 90000


def e8m0(draw):
    every = np.arange(256, dtype=np.uint32)
    theirs = torch.from_numpy(every.astype(np.uint8)).view(torch.float8_e8m0fnu).float().numpy()
    assert same(floats(asked([f"widen e8m0 {' '.join(map(str, every.tolist()))}"], 2)[0]), theirs).all()
    bits = largest(draw)
    x = bits.view(np.float32)
    number = np.isfinite(x) & (x >= np.float32(2.0**-127)) & (x <= np.float32(2.0**127))
    x = x[number]
    ours = asked([f"cast e8m0 {' '.join(map(str, bits[number].tolist()))}"], 2)[0].astype(np.int64)
    nearest = codes(torch.from_numpy(x.copy()).to(torch.float8_e8m0fnu))
    below = theirs[nearest] < x
    assert (ours == nearest + below).all()
    print(f"equal: 256 codes of e8m0 widened, {np.count_nonzero(~below)} casts to it; not: {below.sum()} nearest")


def main():
    torch.set_num_threads(1)
    draw = np.random.default_rng(32)
    exponents(draw)
    tensors(draw)
    e8m0(draw)


main()
