"""muon: directions go to the owners of the matrices, results come back, in one all_to_all each."""

import numpy as np


def muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm):
    y = s.one_minus_momentum * grad
    exp_avg = s.momentum * exp_avg + y
    direction = y + s.momentum * exp_avg
    ends = np.cumsum([rows * columns for rows, columns in shapes]).tolist()
    wholes = [(end - rows * columns, end) for end, (rows, columns) in zip(ends, shapes)]
    own = [overlap(whole, owns[rank]) for whole in wholes]

    blocks = [joined(direction[first:end] for (first, end), owner in zip(own, owners) if owner == to)
              for to in range(comm.size)]
    arrived, results = comm.all_to_all(blocks), [[] for _ in range(comm.size)]
    taken = [0] * comm.size
    for (rows, columns), whole, owner in zip(shapes, wholes, owners):
        if owner != rank:
            continue
        sizes = [end - first for first, end in (overlap(whole, of) for of in owns)]
        matrix = joined(block[at:at + size] for block, at, size in zip(arrived, taken, sizes))
        taken = [at + size for at, size in zip(taken, sizes)]
        done = newton_schulz(matrix.reshape(rows, columns)).ravel()
        for parts, part in zip(results, np.split(done, np.cumsum(sizes)[:-1])):
            parts.append(part)
    back = comm.all_to_all([joined(parts) for parts in results])

    master, taken = master.copy(), [0] * comm.size
    for (rows, columns), (first, end), owner in zip(shapes, own, owners):
        a = s.step_size(rows, columns) * back[owner][taken[owner]:taken[owner] + end - first]
        taken[owner] += end - first
        master[first:end] = master[first:end] - (a + s.lr_weight_decay * master[first:end])
    return exp_avg, master


def overlap(whole, of):
    """The elements of a matrix that a rank owns, counted from the rank's first element."""
    first = min(max(whole[0], of[0]), of[1])
    return first - of[0], max(first, min(whole[1], of[1])) - of[0]


def joined(parts):
    return np.concatenate([np.zeros(0, np.float32), *parts])
