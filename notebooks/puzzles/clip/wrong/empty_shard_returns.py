# caught: rank 1 ended after 0 calls | waiting forever: rank 0 in all_reduce, its call 1, rank 2 in all_reduce
import math
from fractions import Fraction

import numpy as np


def words_of(grad):
    own = sum(int(Fraction(float(x))**2 * 2**352) for x in grad)
    return np.array([(own >> (32 * i)) & 0xFFFFFFFF for i in range(21)], np.uint64)


def norm_of(words):
    return math.sqrt(sum(int(word) << (32 * i) for i, word in enumerate(words)) / 2**352)



def clip(rank, grad, max_norm, comm, memory):
    if grad.size == 0:
        return grad.copy()
    q = max_norm / (norm_of(comm.all_reduce(words_of(grad))) + 1e-6)
    return grad * np.float32(q if q < 1 else 1)
