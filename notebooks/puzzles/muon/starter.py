"""A Muon that is correct on one rank: repair it for shards that cut matrices (lesson 13; R28)."""

import numpy as np


def muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm):
    """Returns the new exp_avg and master of this rank's elements: a tuple of new fp32 arrays. Ranks
    are threads.

    Matrices of shapes[i] = (rows, columns) are numbered element after element, row after row,
    matrix after matrix. Rank r owns the elements owns[r] = (begin, end), maybe none: grad, exp_avg
    and master are those of this rank. newton_schulz(matrix) orthogonalises an fp32 array of two
    dimensions; rank owners[i] does it for matrix i, once, also without having its elements.

    comm.all_to_all(blocks) sends block r to rank r, and returns the blocks for this rank. A rank
    may send each element of its direction to the owner of the matrix, and each owner the results
    back, 4 bytes each, in one message per receiver each way.

    s.momentum, s.one_minus_momentum, s.lr_weight_decay are fp32; s.step_size(rows, columns) is the
    fp32 factor of a matrix of this shape.
    """
    # TODO: no rank has a whole matrix here, and a boundary may be inside of a row
    y = s.one_minus_momentum * grad
    exp_avg = s.momentum * exp_avg + y
    direction = y + s.momentum * exp_avg
    master, begin, first = master.copy(), owns[rank][0], 0
    for rows, columns in shapes:
        own = slice(max(first - begin, 0), max(first + rows * columns - begin, 0))
        part = direction[own].reshape(-1, columns)
        a = s.step_size(max(len(part), 1), columns) * newton_schulz(part).ravel()
        master[own] = master[own] - (a + s.lr_weight_decay * master[own])
        first += rows * columns
    return exp_avg, master
