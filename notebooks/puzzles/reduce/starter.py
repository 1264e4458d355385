"""Each rank's shard of the gradient sum, by sending nodes of the tree (lesson 7; R11, stage 1)."""

import numpy as np


def reduce(rank, leaves, count, owns, comm, memory):
    """Returns this rank's shard of the sum of all `count` leaves: a new fp32 array. Ranks are
    threads.

    Rank r of W has the leaves floor(count * r / W) up to (not including) floor(count * (r + 1) /
    W): `leaves`, a list of fp32 arrays of one shape, which may be empty. It owns the elements
    owns[r] = (begin, end) of the sum, maybe none. Bits are those of the tree of R11 over all leaves
    (add_tree), infinities, NaN and -0 included.

    comm.all_to_all(blocks) sends block r to rank r, and returns the blocks for this rank. A rank
    may send as much as in `zeroproof plan`: of each of its maximal nodes the elements the receiver
    owns, 4 bytes each, in one message. It may hold as many whole nodes as its stack has at most,
    the received blocks, and, with more than one node, a copy of the sent blocks. Blocks count while
    they are sent, and results until memory.release(array); memory.hold(name, array) counts arrays
    of your own. `leaves` and your result do not count.
    """
    # TODO: own nodes, the block for each owner, and the sum of all received nodes


def push(stack, level, index, values):
    """R11: pushes a node on the stack, a list of (level, index, values), and adds halves of one
    node.
    """
    # TODO
