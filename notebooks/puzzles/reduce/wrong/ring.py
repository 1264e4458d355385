# caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | element   [2] | M = 8, ranks
import numpy as np


def reduce(rank, leaves, count, owns, comm, memory):
    begin, end = owns[rank]
    got = np.zeros(0, np.float32)
    for turn in range(1, comm.size + 1):
        of = (rank - turn) % comm.size
        blocks = [np.zeros(0, np.float32)] * comm.size
        partial = np.zeros(owns[of][1] - owns[of][0], np.float32) if turn == 1 else got
        for leaf in leaves:
            partial = partial + leaf[slice(*owns[of])]
        blocks[(rank + 1) % comm.size] = partial
        got = partial if turn == comm.size else comm.all_to_all(blocks)[(rank - 1) % comm.size]
    return got
