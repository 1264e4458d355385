"""The sum of gradients, each rank its shard of it, by sending nodes of the tree (lesson 7; rule R11, stage 1)."""

import numpy as np


def reduce(rank, leaves, count, owns, comm, memory):
    """This rank's shard of the sum of all `count` leaves: a new fp32 array. Every rank runs this function, as a thread.

    Rank r of W has the leaves floor(count * r / W) up to (not including) floor(count * (r + 1) / W): `leaves`, a list
    of fp32 arrays of one shape, which may be empty. It owns the elements owns[r] = (begin, end) of the sum, maybe none.
    Bits are those of the tree of R11 over all leaves (add_tree), infinities, NaN and -0 included.

    comm.all_to_all(blocks) gives block r to rank r, and returns the blocks for this rank. A rank may send what
    `zeroproof plan` has: of each of its maximal nodes the elements the receiver owns, 4 bytes each, in one message. It
    may hold as many whole nodes as its stack has at most, what it gets, and, with more than one node, a copy of what it
    sends. Blocks count while they are sent, and results until memory.release(array); memory.hold(name, array) counts
    what you make yourself. `leaves` and your answer do not count.
    """
    # TODO: own nodes, what each owner gets of them, and the sum of all that arrive


def push(stack, level, index, values):
    """R11: puts a node on the stack, a list of (level, index, values), and adds what are the two halves of a node."""
    # TODO
