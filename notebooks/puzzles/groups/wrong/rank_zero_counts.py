# caught: first at  step 1  phase norm  rank 1  buffer counts | got 0  want 1 | grid 1x2x1, a tensor that is replicated
def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = list(range(first, first + tp)) if replicated else [rank]
    nodes = list(range(t, dp * cp * tp, tp))
    counts = 1 if rank == 0 or not replicated else 0
    return parts, nodes, counts
