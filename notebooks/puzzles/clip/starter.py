"""One norm for all ranks; every rank clips its own shard (lesson 5; rule R12, form exact)."""

import math
from fractions import Fraction

import numpy as np


def clip(rank, grad, max_norm, comm, memory):
    """Returns the clipped shard of this rank: a new fp32 array of grad's shape. Ranks are threads.

    The squares of all elements of all ranks are added exactly; the sum is rounded to fp64 once, and
    N is its root. Then, in fp64, q = max_norm / (N + 1e-6), and every element is multiplied by
    fp32(min(1, q)).

    comm.all_reduce(words) adds integers over ranks; comm.all_gather(block) and
    comm.all_to_all(blocks) move bytes. Their results count as held until memory.release(array);
    memory.hold(name, array) counts arrays of your own. Sent bytes and messages are limited to those
    of `zeroproof plan` for a norm: 23 words of 8 bytes to every other rank, once; held bytes are
    limited to two times 23 words.
    """
    # TODO: the exact sum, the reduction, the coefficient


def to_words(total):
    """An integer as 21 words of 32 bits, lowest first, in uint64, so that ranks can add them
    without overflow.
    """
    return np.array([(total >> (32 * i)) & 0xFFFFFFFF for i in range(21)], np.uint64)


def from_words(words):
    return sum(int(word) << (32 * i) for i, word in enumerate(words))


# Fraction(float(x)) is exact; the square of every fp32 number times 2**352 is an integer. Python's
# division of two integers is rounded to fp64 once, and math.sqrt is rounded correctly.
UNIT = Fraction(2)**352
ROOT = math.sqrt
