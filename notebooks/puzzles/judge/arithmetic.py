"""Expected results: a few rules of the contract, in numpy and Python's integers."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

F = np.float32
LIMBS = 21


def tree_sum(leaves):
    """R11: node (l, k) is (l-1, 2k) + (l-1, 2k+1), or the first alone if the second is empty."""
    level = list(leaves)
    while len(level) > 1:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return np.array(level[0])


def nodes_of_block(a, b):
    """R11: the largest nodes inside [a, b), from left to right."""
    nodes = []
    while a < b:
        level = 0
        while a % 2**(level + 1) == 0 and a + 2**(level + 1) <= b:
            level += 1
        nodes.append((level, a >> level))
        a += 2**level
    return nodes


def power(base, t):
    """R5: base^t by squaring, from the lowest bit of t, in fp64."""
    result = np.float64(1)
    base = np.float64(base)
    while True:
        if t % 2 == 1:
            result = result * base
        t //= 2
        if t == 0:
            return result
        base = base * base


def adam_scalars(t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The scalars of R5 that adamw reads, as fp32."""
    b1, b2 = np.float64(F(beta1)), np.float64(F(beta2))
    return SimpleNamespace(
        beta1=F(b1), one_minus_beta1=F(1 - b1), beta2=F(b2), one_minus_beta2=F(1 - b2),
        sqrt_bias_correction2=F(np.sqrt(1 - power(b2, t))), step_size=F(np.float64(lr) / (1 - power(b1, t))),
        eps=F(eps),
        lr_weight_decay=F(np.float64(lr) * np.float64(weight_decay)), has_decay=int(lr * weight_decay != 0))


def adamw_step(grad, master, exp_avg, exp_avg_sq, s):
    """R6, rule adamw: new master, exp_avg and exp_avg_sq."""
    with np.errstate(all="ignore"):
        m = s.beta1 * exp_avg + s.one_minus_beta1 * grad
        v = s.beta2 * exp_avg_sq + s.one_minus_beta2 * (grad * grad)
        a = s.step_size * (m / (np.sqrt(v) / s.sqrt_bias_correction2 + s.eps))
        u = a + s.lr_weight_decay * master if s.has_decay else a
        return master - u, m, v


def sum_of_squares(values):
    """R12, form exact: an integer of units 2^-352."""
    return sum(int(Fraction(float(x))**2 * 2**352) for x in np.asarray(values).ravel())


def to_words(total):
    """An integer as 21 words of 32 bits, lowest first, in uint64: sums do not overflow."""
    return np.array([(total >> (32 * i)) & 0xFFFFFFFF for i in range(LIMBS)], np.uint64)


def from_words(words):
    return sum(int(word) << (32 * i) for i, word in enumerate(words))


def coefficient(total, max_norm):
    """R12: N is the root of the sum rounded to fp64; the coefficient is in fp64, rounded once."""
    norm = math.sqrt(total / 2**352)
    q = max_norm / (norm + 1e-6)
    return F(q if q < 1 else 1)


def scaler_step(config, state, found_inf):
    """R14, loss_scaler.hpp: exponent, tracker and overflows left, after a step."""
    scale, tracker, left = state
    if config.kind == "constant":
        return state
    if found_inf:
        left = max(left - 1, 0)
        return max(scale - config.log2_backoff, config.log2_min) if left == 0 else scale, 0, left
    if tracker + 1 != config.growth_interval:
        return scale, tracker + 1, config.hysteresis if config.refill == "good_step" else left
    grown = scale + config.log2_growth
    return grown if grown <= config.log2_max else scale, 0, config.hysteresis


def unscale(shards, inv_scale):
    """R6, R14: every shard's g1, and found_inf of all."""
    with np.errstate(all="ignore"):
        g1 = [shard * inv_scale for shard in shards]
    return g1, int(any(not np.isfinite(shard).all() for shard in g1))


def boundaries(chunks, ranks):
    """R13: boundaries of the slices of one bucket, in elements."""
    return [1024 * (chunks * rank // ranks) for rank in range(ranks + 1)]


def shard_map(sizes, ranks):
    """R13, one bucket: (tensor, begin, end) of the elements of every rank, without padding."""
    at = boundaries(sum(-(-size // 1024) for size in sizes), ranks)
    owned, rank, begin = [[] for _ in range(ranks)], 0, 0
    for tensor, size in enumerate(sizes):
        done = 0
        while done < size:
            while at[rank + 1] <= begin + done:
                rank += 1
            end = min(size, at[rank + 1] - begin)
            owned[rank].append((tensor, done, end))
            done = end
        begin += -(-size // 1024) * 1024
    return owned


def shards_of(whole, buckets, ranks):
    """R13: every rank's shard, its slices of all buckets one after another."""
    begins = np.cumsum([0, *buckets])
    slices = [[
        whole[begin:][first:end] for begin, length in zip(begins, buckets)
        for first, end in [boundaries(length // 1024, ranks)[rank:rank + 2]]
    ] for rank in range(ranks)]
    return [np.concatenate([whole[:0], *own]) for own in slices]


def groups(rank, grid, replicated):
    """R11, R12: ranks whose parts make a leaf, ranks that share a state, 1 if this rank counts."""
    place = {(d, c, t): (d * grid[1] + c) * grid[2] + t for d, c, t in np.ndindex(*grid)}
    mine = next(where for where, number in place.items() if number == rank)
    parts = [number for where, number in place.items() if where[:2] == mine[:2]] if replicated else [rank]
    nodes = [number for where, number in place.items() if where[2] == mine[2]]
    return parts, nodes, int(not replicated or mine[2] == 0)
