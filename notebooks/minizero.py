#!/usr/bin/env python3
"""ZeRO in numpy, from the contract alone; prints the same trajectory hash as zeroproof.

    minizero.py [--ranks W] [--stage 0|1|2|3] [GRADIENTS.safetensors]

Trains with AdamW on recorded gradients (without a file: those of byte_gpt_tiny, recorded first) on
W virtual ranks, with bf16 parameters, or with fp16 parameters, fp16 gradients and a loss scaler.
Moments start at zero, as in `zeroproof verify --gradients FILE --recipe adamw` with the setting
`run.initial_state = "zero"`, which prints the same hash.
"""

import argparse
import math
from fractions import Fraction

import zp
from zp_hash import TrajectoryHash
from zp_recording import read_settings, recording

import numpy as np

F, CHUNK = np.float32, 1024

# The supported settings, one of the alternatives in each line; other recordings are rejected.
SETTINGS = [line.split(" | ") for line in (
    "clip_group = []", "param_group = []", "rule = 'adamw'", "norm = 'chunk1024'", "amsgrad = false",
    "maximize = false", "bias_correction = true", "clip_value = 0.0", "loss_reduction = 'mean'",
    "missing_grad = 'zero'", "on_nonfinite = 'skip'", "param_rounding = 'nearest'", "decay = 'constant'",
    "warmup = 0", "weight_decay_ramp = 'constant'", "dtypes = [ 'bf16' ] | dtypes = [ 'fp16' ]")]


def push(stack, node):
    """R11: pushes a node, then adds the top two while they are halves of one node."""
    stack.append(node)
    while len(stack) > 1 and stack[-1][1] % 2 == 1 and stack[-2][:2] == (stack[-1][0], stack[-1][1] - 1):
        level, index, right = stack.pop()
        stack.append((level + 1, index // 2, stack.pop()[2] + right))


def fold(stack):
    """R11: adds the remaining nodes of a stack, from last to first."""
    total = stack.pop()[2]
    while stack:
        total = stack.pop()[2] + total
    return total


def reduce_at_the_end(leaf, count, owns):
    """Stages 0 and 1: rank r has a block of micro-batches and sends its maximal nodes once."""
    ranks, sent = len(owns), []
    for rank in range(ranks):
        stack = []
        for j in range(count * rank // ranks, count * (rank + 1) // ranks):
            push(stack, (0, j, leaf(j)))
        sent.append(stack)
    shards = []
    for begin, end in owns:
        stack = []
        for nodes in sent:
            for level, index, values in nodes:
                push(stack, (level, index, values[begin:end]))
        shards.append(fold(stack).copy())
    return shards


def reduce_at_once(leaf, count, owns):
    """Stages 2 and 3: rank r has the j with j mod W = r, and sends each gradient to its owners."""
    stacks = [[] for _ in owns]
    for first in range(0, count, len(owns)):  # a micro-step
        for j in range(first, min(first + len(owns), count)):
            values = leaf(j)
            for stack, (begin, end) in zip(stacks, owns):
                push(stack, (0, j, values[begin:end].copy()))
    return [fold(stack) for stack in stacks]


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
    """R5: b^t by squaring, from the lowest bit of t."""
    r = np.float64(1)
    while True:
        if t % 2:
            r = r * b
        t //= 2
        if not t:
            return r
        b = b * b


def step_scalars(o, t, scale, count):
    """R5: the 15 scalars, fp64 rounded to fp32 once; the last two are flags."""
    b1, b2 = np.float64(F(o["beta1"])), np.float64(F(o["beta2"]))
    lr, decay = np.float64(o["lr"]), np.float64(o["weight_decay"])
    words = [1 / (np.float64(2)**scale * count), b1, 1 - b1, b2, 1 - b2, np.sqrt(1 - power(b2, t)),
             lr / (1 - power(b1, t)), o["eps"], lr * decay, decay, lr, o["momentum"], 1 - np.float64(o["dampening"])]
    return [F(word) for word in words] + [np.uint32(lr * decay != 0), np.uint32(t == 1)]


class LossScaler:
    """R14: an automaton on exponents. The scale stays 1 with `kind` none (bf16 gradients)."""

    def __init__(self, kind, o):
        def exponent(name):
            return math.frexp(o[name])[1] - 1

        self.dynamic = kind == "dynamic"
        self.scale = 0 if kind == "none" else exponent("initial_loss_scale")
        self.growth, self.backoff = exponent("growth_factor"), -exponent("backoff_factor")
        self.least, self.most = exponent("min_loss_scale"), exponent("max_loss_scale")
        self.interval, self.hysteresis = int(o["growth_interval"]), int(o["hysteresis"])
        self.refill_always = o["hysteresis_refill"] == "good_step"
        self.good, self.left = 0, self.hysteresis

    def move(self, found_inf):
        if self.dynamic and found_inf:
            self.good, self.left = 0, max(self.left - 1, 0)
            if self.left == 0:
                self.scale = max(self.scale - self.backoff, self.least)
        elif self.dynamic:
            self.good += 1
            if self.refill_always:
                self.left = self.hysteresis
            if self.good == self.interval:
                self.good, self.left = 0, self.hysteresis
                if self.scale + self.growth <= self.most:
                    self.scale += self.growth


def adamw(g, master, m, v, s):
    """R6."""
    m = s[1] * m + s[2] * g
    v = s[3] * v + s[4] * (g * g)
    u = s[6] * (m / (np.sqrt(v) / s[5] + s[7]))
    if s[13]:
        u = u + s[8] * master
    return master - u, m, v


def gather(shards, owns, own):
    """Stage 3: the parameters of one tensor, each part from its owner."""
    parts = [shard[max(own.start - begin, 0):max(own.stop - begin, 0)] for shard, (begin, _) in zip(shards, owns)]
    return np.concatenate(parts)


def train(file, ranks, stage):
    """The trajectory hash and the number of skipped steps."""
    names = file.metadata["order"].splitlines()
    steps, count = int(file.metadata["steps"]), int(file.metadata["micro_batches"])
    recorded_at = int(file.metadata.get("loss_scale_log2", 0))
    o = read_settings(file.metadata["settings"])
    half = o["dtypes"] == "[ 'fp16' ]"
    scaler = LossScaler(o["kind"] if half else "none", o)

    # R13: one flat range; every tensor starts at a multiple of 1024, and padding stays +0
    pieces, end = {}, 0
    for name in names:
        pieces[name] = slice(end, end + file[f"param.{name}"].size)
        end += -(-file[f"param.{name}"].size // CHUNK) * CHUNK
    chunks = end // CHUNK
    owns = [(chunks * rank // ranks * CHUNK, chunks * (rank + 1) // ranks * CHUNK) for rank in range(ranks)]
    holds = [(0, end)] * ranks if stage == 0 else owns  # of master and moments

    def flat(prefix):
        whole = np.zeros(end, F)
        for name in names:
            whole[pieces[name]] = file[prefix + name].ravel()
        return whole

    def cast(master):  # R8; numpy has no bf16: an fp32 array with its values
        return master.astype(np.float16) if half else zp.to_bf16(master)

    first = flat("param.")
    masters = [first[begin:stop].copy() for begin, stop in holds]
    moments = [(np.zeros(stop - begin, F), np.zeros(stop - begin, F)) for begin, stop in holds]
    params = [cast(master) for master in masters]
    t, skipped, digest = 1, 0, TrajectoryHash()
    digest.add(np.uint64(2))
    for step in range(1, steps + 1):
        scale = scaler.scale
        s = step_scalars(o, t, scale, count)

        def leaf(j):
            values = flat(f"grad.{step}.{j}.") * F(2.0**(scale - recorded_at))
            return values.astype(np.float16).astype(F) if half else values

        sums = (reduce_at_the_end if stage < 2 else reduce_at_once)(leaf, count, owns)
        total = np.concatenate(sums)
        # stage 0: every rank gets the whole sum
        unscaled = [shard * s[0] for shard in (sums if stage else [total] * ranks)]
        found_inf = max(int(not np.isfinite(shard).all()) for shard in unscaled)  # R14: an OR
        scaler.move(found_inf)
        norm, coef = np.float64(np.nan), F(np.nan)
        if not found_inf:
            counted = unscaled if stage else unscaled[:1]  # R12: replicated values count once
            norm = np.float64(math.sqrt(sum(map(squares, counted)) / 2**352))
            q = np.float64(o["max_norm"]) / (norm + np.float64(1e-6))
            coef = F(1) if o["max_norm"] == 0 else F(q if q < 1 else 1)
            for rank in range(ranks):
                new = adamw(unscaled[rank] * coef, masters[rank], *moments[rank], s)
                masters[rank], moments[rank], params[rank] = new[0], new[1:], cast(new[0])
            t += 1
        skipped += found_inf

        def whole(shards):
            return shards[0] if stage == 0 else np.concatenate(shards)

        digest.add(np.uint64(step), *s, np.int64(scale), np.uint64(found_inf), norm, coef)
        state = [whole(masters), *(whole([moment[i] for moment in moments]) for i in (0, 1))]
        # stages 1 and 2 gather all parameters, stage 3 one tensor at a time
        gathered = None if stage == 3 else whole(params)
        for own in pieces.values():
            digest.add(total[own], *(buffer[own] for buffer in state))
            param = gather(params, owns, own) if stage == 3 else gathered[own]
            digest.add(param) if half else digest.add_bf16(param)
    return digest.text(), skipped


def main():
    parser = argparse.ArgumentParser(
        description="ZeRO in numpy: prints the trajectory hash of zeroproof")
    parser.add_argument("gradients", nargs="?",
                        help="file of zeroproof record, bf16 or fp16 (default: records bf16)")
    parser.add_argument("--ranks", type=int, default=4, help="virtual ranks (default: 4)")
    parser.add_argument("--stage", type=int, default=2, choices=range(4),
                        help="ZeRO stage (default: 2)")
    words = parser.parse_args()
    if words.ranks < 1:
        parser.error(f"--ranks must be at least 1, got {words.ranks}")
    if words.gradients:
        file = recording(words.gradients, SETTINGS)
    else:
        file = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16")
    with np.errstate(all="ignore"):
        text, skipped = train(file, words.ranks, words.stage)
    print(f"{file.metadata['steps']} steps on {words.ranks} ranks, {skipped} skipped: trajectory {text}")


if __name__ == "__main__":
    main()
