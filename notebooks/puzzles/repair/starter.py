"""Two streams: add the missing waits of a plan and remove the redundant ones (lesson 11)."""


def repair(operations, waits):
    """Returns the waits of the plan, pairs of names: (first, second) lets second begin when first
    has ended.

    operations are in the order of a single stream, and each has .name, .stream, .reads and .writes
    (sets of buffers). Operations of the same stream run one after another; those of two streams in
    any order, unless waits order them, directly or through others. Two operations that access the
    same buffer must keep their order if one of them writes it; other pairs must not be ordered
    beyond what follows.

    waits are those of the plan: some are missing, some are redundant. Exactly one set of waits is
    correct; its order does not matter.
    """
    # TODO: the pairs that need an order, without those that follow from others
