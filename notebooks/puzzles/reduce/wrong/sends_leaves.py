# caught: right bits, over budget: phase reduce  rank 0  bytes: 120, and the plan has 60
import numpy as np


def reduce(rank, leaves, count, owns, comm, memory):
    blocks = [np.concatenate([np.zeros(0, np.float32), *[leaf[begin:end] for leaf in leaves]]) for begin, end in owns]
    size = owns[rank][1] - owns[rank][0]
    level = list(np.concatenate(comm.all_to_all(blocks)).reshape(count, size))
    while len(level) > 1:
        above = [left + right for left, right in zip(level[0::2], level[1::2])]
        level = above + level[len(level) - len(level) % 2:]
    return level[0].copy()
