# caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | element   [0] | M = 20, ranks own
import numpy as np


def reduce(rank, leaves, count, owns, comm, memory):
    whole = add_tree(leaves)
    sums = comm.all_to_all([whole[begin:end] for begin, end in owns])
    return add_tree(sums)


def add_tree(leaves):
    level = list(leaves)
    while len(level) > 1:
        above = [left + right for left, right in zip(level[0::2], level[1::2])]
        level = above + level[len(level) - len(level) % 2:]
    return level[0].copy()
