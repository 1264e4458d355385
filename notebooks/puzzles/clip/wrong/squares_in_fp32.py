# caught: first at  step 1  phase clip  rank 0  buffer grad
import math
from fractions import Fraction

import numpy as np


def words_of(grad):
    own = sum(int(Fraction(float(x))**2 * 2**352) for x in grad)
    return np.array([(own >> (32 * i)) & 0xFFFFFFFF for i in range(21)], np.uint64)


def norm_of(words):
    return math.sqrt(sum(int(word) << (32 * i) for i, word in enumerate(words)) / 2**352)



def clip(rank, grad, max_norm, comm, memory):
    total = 0.0
    with np.errstate(all="ignore"):
        for part in comm.all_gather(grad):
            for x in part:
                total = np.float32(total) + x * x
    q = max_norm / (math.sqrt(total) + 1e-6)
    return grad * np.float32(q if q < 1 else 1)
