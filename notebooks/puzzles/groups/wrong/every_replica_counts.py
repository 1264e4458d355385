# caught: first at  step 1  phase norm  rank 1  buffer counts | got 1  want 0 | grid 1x1x2, a tensor that is replicated
def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = list(range(first, first + tp)) if replicated else [rank]
    nodes = list(range(t, dp * cp * tp, tp))
    counts = 1
    return parts, nodes, counts
