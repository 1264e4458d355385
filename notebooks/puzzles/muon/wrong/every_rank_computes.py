# caught: right bits, over budget: phase update  rank 0  bytes: 48, and the plan has 0
import numpy as np


def muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm):
    y = s.one_minus_momentum * grad
    exp_avg = s.momentum * exp_avg + y
    whole = np.concatenate(comm.all_gather(y + s.momentum * exp_avg))
    steps, first = [np.zeros(0, np.float32)], 0
    for rows, columns in shapes:
        matrix = whole[first:first + rows * columns].reshape(rows, columns)
        steps.append(s.step_size(rows, columns) * newton_schulz(matrix).ravel())
        first += rows * columns
    a = np.concatenate(steps)[slice(*owns[rank])]
    return exp_avg, master - (a + s.lr_weight_decay * master)
