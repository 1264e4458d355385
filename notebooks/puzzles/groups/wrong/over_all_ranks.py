# caught: first at  step 1  phase reduce  rank 0  buffer nodes | got [0, 1]  want [0] | grid 1x1x2, a tensor that is split
def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = list(range(first, first + tp)) if replicated else [rank]
    nodes = list(range(dp * cp * tp))
    counts = 1 if t == 0 or not replicated else 0
    return parts, nodes, counts
