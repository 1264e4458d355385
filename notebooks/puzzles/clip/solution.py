"""clip: integers over ranks, one rounding, one root."""

import math
from fractions import Fraction

import numpy as np


def clip(rank, grad, max_norm, comm, memory):
    own = sum(int(Fraction(float(x))**2 * 2**352) for x in grad)
    words = np.array([(own >> (32 * i)) & 0xFFFFFFFF for i in range(21)], np.uint64)
    total = sum(int(word) << (32 * i) for i, word in enumerate(comm.all_reduce(words)))
    norm = math.sqrt(total / 2**352)
    q = max_norm / (norm + 1e-6)
    return grad * np.float32(q if q < 1 else 1)
