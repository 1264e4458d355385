# caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | zeros with a sign | got 0x00000000 (0)
import numpy as np


def add_tree(leaves):
    level = list(leaves)
    if len(level) == 1:
        return level[0].copy()
    while len(level) > 1:
        if len(level) % 2 == 1:
            level.append(np.zeros_like(level[0]))
        level = [left + right for left, right in zip(level[0::2], level[1::2])]
    return level[0]
