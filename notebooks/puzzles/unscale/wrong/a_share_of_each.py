# caught: first at  step 1  phase unscale  rank 0  buffer g1 | element   [0] | no overflow, ranks with [8, 8] elements
import numpy as np


def unscale(rank, grad_sum, inv_scale, comm, memory):
    g1 = grad_sum * inv_scale
    g1 /= np.float32(comm.size)
    flag = np.array([0 if np.isfinite(g1).all() else 1], np.uint64)
    return g1, int(comm.all_reduce(flag)[0] > 0)
