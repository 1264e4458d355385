# caught: rank 0 ended after 0 calls and rank 1 ended after 0 calls and rank 3 ended after 0 calls | rank 2 in
import numpy as np


def unscale(rank, grad_sum, inv_scale, comm, memory):
    g1 = grad_sum * inv_scale
    flag = np.array([0 if np.isfinite(g1).all() else 1], np.uint64)
    if flag[0] == 0:
        return g1, 0
    return g1, int(comm.all_reduce(flag)[0] > 0)
