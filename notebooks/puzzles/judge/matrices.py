"""Expected results: matrix products, Newton-Schulz and the rule muon of the contract (R27, R28), in numpy."""

import math

import numpy as np

from judge.arithmetic import F, sum_of_squares

SIMPLE = (3.4445, -4.7750, 2.0315)  # one polynomial, in every step


def bf16(values):
    """R8: fp32 rounded to bf16, to nearest, ties to even, as fp32 values; NaN stays NaN."""
    values = np.array(values, F)
    pattern = values.view(np.uint32)
    rounded = ((pattern + (((pattern >> 16) & 1) + 0x7FFF)) & 0xFFFF0000).astype(np.uint32).view(F)
    return np.where(np.isnan(values), values, rounded)[()]


def chain(left, right):
    """left right^T, terms added in order with fma: in fp64 the product is exact, and the sum is rounded as by fma."""
    total = np.zeros((len(left), len(right)), F)
    for x, y in zip(left.T.astype(np.float64), right.T.astype(np.float64)):
        total = (total + np.multiply.outer(x, y)).astype(F)
    return total


def block_sums(left, right):
    """R18: the sums of the 8 blocks of terms of left right^T."""
    at = [left.shape[1] * b // 8 for b in range(9)]
    return [chain(left[:, begin:end], right[:, begin:end]) for begin, end in zip(at, at[1:])]


def fold(sums):
    """R18: neighbours are added, then the sums of neighbours; the number of sums is a power of two."""
    while len(sums) > 1:
        sums = [one + other for one, other in zip(sums[0::2], sums[1::2])]
    return sums[0]


def product(left, right, factors=bf16):
    """R27: left right^T."""
    return fold(block_sums(factors(left), factors(right)))


def normalised(matrix, eps=1e-7, factors=bf16):
    """The matrix over its norm, which is an exact sum (R12), rounded once to fp64."""
    norm = math.sqrt(sum_of_squares(matrix) / 2**352)
    return factors((matrix.astype(np.float64) / max(norm, eps)).astype(F))


def iteration(x, triple=SIMPLE, factors=bf16, times=product):
    """One polynomial a X + (b A + c A A) X with A = X X^T, in the form fused."""
    a, b, c = map(F, triple)
    gram = factors(times(x, x, factors))
    inner = factors(b * gram + c * times(gram, gram, factors))
    return factors(a * x + times(inner, x.T, factors))


def newton_schulz(matrix, steps=5, triple=SIMPLE, factors=bf16, times=product):
    """R28: a matrix with the singular vectors of the given one and singular values near 1."""
    wide = matrix.T if len(matrix) > matrix.shape[1] else matrix
    with np.errstate(all="ignore"):
        x = normalised(wide, factors=factors)
        for _ in range(steps):
            x = iteration(x, triple, factors, times)
    return np.array(x.T if wide is not matrix else x, F)


def momentum(grad, exp_avg, mu=0.95, one_minus_dampening=None, nesterov=True):
    """R28: the new exp_avg, and the direction that is orthogonalised; without one_minus_dampening of the family ema."""
    weight = F(mu)
    own = F(1 - mu) if one_minus_dampening is None else F(one_minus_dampening)
    y = own * grad
    exp_avg = weight * exp_avg + y
    return exp_avg, y + weight * exp_avg if nesterov else exp_avg


def step_size(rows, columns, lr):
    """R28, scale original: the factor of a matrix's update."""
    return F(np.float64(F(lr)) * math.sqrt(max(1.0, rows / columns)))


def update(master, orthogonal, size, lr_weight_decay):
    """R28: the new master."""
    a = size * orthogonal
    return master - (a + lr_weight_decay * master if lr_weight_decay else a)
