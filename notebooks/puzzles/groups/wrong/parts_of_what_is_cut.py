# caught: first at  step 1  phase reduce  rank 0  buffer parts | got [0, 1]  want [0] | grid 1x1x2, a tensor that is cut
def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = list(range(first, first + tp))
    nodes = list(range(t, dp * cp * tp, tp))
    counts = 1 if t == 0 or not replicated else 0
    return parts, nodes, counts
