"""Which ranks of a grid a gradient is reduced over, and which of them counts it (lesson 9; rules R11, R12)."""


def groups(rank, dp, cp, tp, replicated):
    """(parts, nodes, counts) of one tensor on one rank of a grid of dp x cp x tp ranks: two lists and 0 or 1.

    Ranks are numbered fastest over tp, then cp, then dp: rank = (d * cp + c) * tp + t. Ranks with the same t share the
    state of a TP shard, whatever their d and c: those of other d have other micro-batches, those of other c other
    positions. `replicated` is 0 if the tensor is cut over the TP ranks, and 1 if each of them has all of it.

    parts:  ranks whose parts are added to make this rank's leaf, in the order of the tree. TP ranks have whole leaves
            of what they cut between them: then it is [rank] alone. Of what all of them have each makes a part.
    nodes:  ranks among which nodes of the tree travel and the sum is divided, in increasing order of numbers.
    counts: 1 if this rank adds the squares of what it owns of the tensor to the norm, which goes over all ranks of the
            grid; 0 if not. Every element has to be counted once.
    """
    # TODO: rank numbers
