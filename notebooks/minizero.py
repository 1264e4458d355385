#!/usr/bin/env python3
"""ZeRO in numpy, from the contract alone: its trajectory hash is that of the programs, on any number of ranks.

    minizero.py [--ranks W] [GRADIENTS.safetensors]

trains with AdamW on recorded gradients (without a file: those of byte_gpt_tiny, recorded first) on W virtual ranks, and
prints the hash. Moments start at zero, as in `zeroproof verify --gradients FILE --recipe adamw` with the setting
`run.initial_state = "zero"`, which prints the same one.
"""

import argparse
import ctypes
import ctypes.util
import math
import re
import struct
from fractions import Fraction

import zp

import numpy as np

F, CHUNK = np.float32, 1024

# All that this file knows; a recording with other settings is refused.
SETTINGS = ("clip_group = []", "param_group = []", "rule = 'adamw'", "norm = 'chunk1024'", "amsgrad = false",
            "maximize = false", "bias_correction = true", "clip_value = 0.0", "dtypes = [ 'bf16' ]",
            "loss_reduction = 'mean'", "missing_grad = 'zero'", "on_nonfinite = 'skip'", "param_rounding = 'nearest'",
            "decay = 'constant'", "warmup = 0", "weight_decay_ramp = 'constant'")


def push(stack, node):
    """R11: puts (level, index, values) on the stack, and adds what are the two halves of one node."""
    stack.append(node)
    while len(stack) > 1 and stack[-1][1] % 2 == 1 and stack[-2][:2] == (stack[-1][0], stack[-1][1] - 1):
        level, index, right = stack.pop()
        stack.append((level + 1, index // 2, stack.pop()[2] + right))


def reduce(blocks, owns):
    """The sum of gradients, a shard for every owner, from the maximal nodes of each rank's block of leaves."""
    sent = []
    for first, leaves in blocks:
        stack = []
        for j, leaf in enumerate(leaves, first):
            push(stack, (0, j, leaf))
        sent.append(stack)
    shards = []
    for begin, end in owns:
        stack = []
        for nodes in sent:
            for level, index, values in nodes:
                push(stack, (level, index, values[begin:end]))
        total = stack.pop()[2]
        while stack:
            total = stack.pop()[2] + total
        shards.append(total.copy())
    return shards


def squares(shard):
    """R12, form chunk1024: the chunks of a shard, added as integers of units 2^-352."""
    rows = shard.astype(np.float64).reshape(-1, 32, 32)
    lanes = np.zeros((len(rows), 32))
    for s in range(32):
        lanes = lanes + rows[:, s, :] * rows[:, s, :]
    for width in (16, 8, 4, 2, 1):
        lanes = lanes[:, :width] + lanes[:, width:2 * width]
    return sum(int(Fraction(value) * 2**352) for value in lanes[:, 0].tolist())


def power(b, t):
    """R5: squares from the right."""
    r = np.float64(1)
    while True:
        if t % 2:
            r = r * b
        t //= 2
        if not t:
            return r
        b = b * b


def step_scalars(o, t, divisor):
    """R5: the 15 words, fp64 rounded to fp32 once; the last two are flags."""
    b1, b2 = np.float64(F(o["beta1"])), np.float64(F(o["beta2"]))
    lr, decay = np.float64(o["lr"]), np.float64(o["weight_decay"])
    words = [1 / np.float64(divisor), b1, 1 - b1, b2, 1 - b2, np.sqrt(1 - power(b2, t)), lr / (1 - power(b1, t)),
             o["eps"], lr * decay, decay, lr, o["momentum"], 1 - np.float64(o["dampening"])]
    return [F(word) for word in words] + [np.uint32(lr * decay != 0), np.uint32(t == 1)]


def adamw(g, master, m, v, s):
    """R6."""
    m = s[1] * m + s[2] * g
    v = s[3] * v + s[4] * (g * g)
    u = s[6] * (m / (np.sqrt(v) / s[5] + s[7]))
    if s[13]:
        u = u + s[8] * master
    return master - u, m, v


class Xxh3:
    """XXH3-128, of the library that the programs use too."""

    def __init__(self):
        name = ctypes.util.find_library("xxhash") or "libxxhash.so.0"
        try:
            self.library = ctypes.CDLL(name)
        except OSError:
            zp.stop("libxxhash cannot be loaded (the trajectory hash is made with it); install libxxhash0", 77)
        self.parts = []

    def add(self, *values):
        """Little endian; every NaN is the canonical one (R9)."""
        for value in values:
            value = np.asarray(value)
            if value.dtype.kind == "f":
                canonical = {4: np.uint32(0x7FFFFFFF), 8: np.uint64(0x7FFFFFFFFFFFFFFF)}[value.dtype.itemsize]
                value = np.where(np.isnan(value), canonical, zp.bits(value))
            self.parts.append(value.tobytes())

    def add_bf16(self, values):
        upper = (zp.bits(values) >> 16).astype(np.uint16)
        self.parts.append(np.where(np.isnan(values), np.uint16(0x7FFF), upper).tobytes())

    def text(self):
        class Hash(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

        self.library.XXH3_128bits.restype = Hash
        self.library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        data = b"".join(self.parts)
        value = self.library.XXH3_128bits(data, len(data))
        return f"{value.high:016x}{value.low:016x}"


def train(file, ranks):
    """The trajectory hash, and how many steps were skipped."""
    names = file.metadata["order"].splitlines()
    steps, count = int(file.metadata["steps"]), int(file.metadata["micro_batches"])
    section = file.metadata["settings"].split("[optimizer]")[1].split("[")[0]
    o = {name: float(value) for name, value in re.findall(r"(\w+) = ([-+.\de]+)$", section, flags=re.M)}

    # R13: one numbering; every tensor starts at a multiple of 1024, and padding stays +0
    pieces, end = {}, 0
    for name in names:
        pieces[name] = slice(end, end + file[f"param.{name}"].size)
        end += -(-file[f"param.{name}"].size // CHUNK) * CHUNK
    chunks = end // CHUNK
    owns = [(chunks * rank // ranks * CHUNK, chunks * (rank + 1) // ranks * CHUNK) for rank in range(ranks)]

    def flat(prefix):
        whole = np.zeros(end, F)
        for name in names:
            whole[pieces[name]] = file[prefix + name].ravel()
        return whole

    first = flat("param.")
    masters = [first[begin:stop].copy() for begin, stop in owns]
    moments = [(np.zeros(stop - begin, F), np.zeros(stop - begin, F)) for begin, stop in owns]
    t, skipped, digest = 1, 0, Xxh3()
    digest.add(np.uint64(2))
    for step in range(1, steps + 1):
        s = step_scalars(o, t, count)
        leaves = [flat(f"grad.{step}.{j}.") for j in range(count)]
        cuts = [count * rank // ranks for rank in range(ranks + 1)]
        sums = reduce([(begin, leaves[begin:stop]) for begin, stop in zip(cuts, cuts[1:])], owns)
        unscaled = [shard * s[0] for shard in sums]
        found_inf = max(int(not np.isfinite(shard).all()) for shard in unscaled)  # R14: an OR
        norm, coef = np.float64(np.nan), F(np.nan)
        if not found_inf:
            norm = np.float64(math.sqrt(sum(map(squares, unscaled)) / 2**352))
            q = np.float64(o["max_norm"]) / (norm + np.float64(1e-6))
            coef = F(1) if o["max_norm"] == 0 else F(q if q < 1 else 1)
            for rank in range(ranks):
                new = adamw(unscaled[rank] * coef, masters[rank], *moments[rank], s)
                masters[rank], moments[rank] = new[0], new[1:]
            t += 1
        skipped += found_inf
        master = np.concatenate(masters)  # gather
        state = [np.concatenate([moment[i] for moment in moments]) for i in (0, 1)]
        digest.add(np.uint64(step), *s, np.int64(0), np.uint64(found_inf), norm, coef)
        total, param = np.concatenate(sums), zp.to_bf16(master)
        for own in pieces.values():
            digest.add(total[own], master[own], state[0][own], state[1][own])
            digest.add_bf16(param[own])
    return digest.text(), skipped


def recording(path):
    """A file of zeroproof record, with the settings of this file; otherwise ends with 2."""
    try:
        file = zp.tensors(path)
        about = file.metadata
        lacks = [name for name in ("order", "steps", "micro_batches", "settings") if name not in about]
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        zp.stop(f"{path} is no safetensors file (gradients are read from it); zeroproof record writes one", 2)
    if lacks:
        zp.stop(f"{path} does not say its {lacks[0]} (a run takes it from there); zeroproof record writes it", 2)
    other = [line for line in SETTINGS if line not in about["settings"].splitlines()]
    if other:
        zp.stop(f"{path} was not recorded with {other[0]} (minizero knows nothing else); record with --dtype bf16, and "
                f"leave these settings as they are", 2)
    return file


def main():
    parser = argparse.ArgumentParser(description="ZeRO in numpy: prints the trajectory hash of the programs")
    parser.add_argument("gradients", nargs="?", help="what zeroproof record --dtype bf16 wrote (default: it is run)")
    parser.add_argument("--ranks", type=int, default=4, help="virtual ranks (default: 4)")
    words = parser.parse_args()
    if words.ranks < 1:
        parser.error(f"--ranks is {words.ranks} (somebody has to own the elements); use 1 or more")
    if words.gradients:
        file = recording(words.gradients)
    else:
        file = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16")
    with np.errstate(all="ignore"):
        text, skipped = train(file, words.ranks)
    print(f"{file.metadata['steps']} steps on {words.ranks} ranks, {skipped} skipped: trajectory {text}")


if __name__ == "__main__":
    main()
