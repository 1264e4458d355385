# caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | M = 3 leaves of 5 elements
import numpy as np


def add_tree(leaves):
    return sum(leaf.astype(np.float64) for leaf in leaves).astype(np.float32)
