# caught: right bits, over budget: phase unscale  rank 0  bytes: 512, and the plan has 8
import numpy as np


def unscale(rank, grad_sum, inv_scale, comm, memory):
    g1 = grad_sum * inv_scale
    flag = np.zeros(64, np.uint64)
    flag[:g1.size] = ~np.isfinite(g1)
    return g1, int(comm.all_reduce(flag).sum() > 0)
