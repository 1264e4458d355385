"""groups: consecutive ranks are TP ranks of the same d and c; every tp-th rank shares a state."""


def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = list(range(first, first + tp)) if replicated else [rank]
    nodes = list(range(t, dp * cp * tp, tp))
    counts = 1 if t == 0 or not replicated else 0
    return parts, nodes, counts
