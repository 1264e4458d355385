"""Ranks over which a gradient is reduced, and the rank that counts it (lesson 9; R11, R12)."""


def groups(rank, dp, cp, tp, replicated):
    """Returns (parts, nodes, counts) of a tensor on a rank of a dp x cp x tp grid: two lists and 0
    or 1.

    Ranks are numbered fastest over tp, then cp, then dp: rank = (d * cp + c) * tp + t. Ranks with
    the same t share the state of a TP shard, for any d and c: ranks of another d have other
    micro-batches, ranks of another c other positions. `replicated` is 0 if the tensor is split over
    the TP ranks, and 1 if each of them has all of it.

    parts:  ranks whose parts are added to make this rank's leaf, in the order of the tree. For a
            split tensor every TP rank has a whole leaf: [rank] alone. For a replicated one each has
            a part.
    nodes:  ranks among which nodes of the tree are sent and the sum is sharded, in increasing
            order.
    counts: 1 if this rank adds the squares of its elements of the tensor to the norm, which is over
            all ranks of the grid; 0 if not. Every element must be counted once.
    """
    # TODO: rank numbers
