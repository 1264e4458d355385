# caught: right bits, over budget: phase unscale  rank 0  bytes: 32, and the plan has 8
import numpy as np


def unscale(rank, grad_sum, inv_scale, comm, memory):
    g1 = grad_sum * inv_scale
    return g1, int(any(not np.isfinite(part).all() for part in comm.all_gather(g1)))
