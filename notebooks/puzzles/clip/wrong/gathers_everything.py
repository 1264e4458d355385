# caught: right bits, over budget: phase norm  rank 0  bytes held at most: 480, and the plan has 368
import math
from fractions import Fraction

import numpy as np


def words_of(grad):
    own = sum(int(Fraction(float(x))**2 * 2**352) for x in grad)
    return np.array([(own >> (32 * i)) & 0xFFFFFFFF for i in range(21)], np.uint64)


def norm_of(words):
    return math.sqrt(sum(int(word) << (32 * i) for i, word in enumerate(words)) / 2**352)



def clip(rank, grad, max_norm, comm, memory):
    shards = comm.all_gather(grad)
    q = max_norm / (norm_of(words_of(np.concatenate(shards))) + 1e-6)
    return grad * np.float32(q if q < 1 else 1)
