# caught: first at  step 1  phase unscale  rank 1  buffer g1 | element   [2] | got 0x00000000 (0)  want 0x80000000 (-0)
import numpy as np


def unscale(rank, grad_sum, inv_scale, comm, memory):
    g1 = np.zeros_like(grad_sum)
    np.multiply(grad_sum, inv_scale, out=g1, where=grad_sum != 0)
    flag = np.array([0 if np.isfinite(g1).all() else 1], np.uint64)
    return g1, int(comm.all_reduce(flag)[0] > 0)
