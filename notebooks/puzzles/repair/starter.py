"""Two streams: put the missing waits into a plan, and take the needless ones out (lesson 11)."""


def repair(operations, waits):
    """The waits of the plan, as a list of pairs of names: (first, second) lets second begin when first has ended.

    operations are in the order in which one stream alone would do them, and each has .name, .stream, .reads and .writes
    (sets of buffers). Operations of the same stream are done one after another; those of two streams in any order,
    unless waits order them, directly or through others. Two operations that touch the same buffer have to stay in their
    order if one of them writes it; two that do not must not be ordered more than that brings with it.

    waits are those the plan has: some are missing, some are needless. What is right is one set of waits, in any order.
    """
    # TODO: the pairs that need an order, without those that others bring with them
