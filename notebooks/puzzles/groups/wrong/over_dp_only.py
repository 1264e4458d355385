# caught: first at  step 1  phase reduce  rank 0  buffer nodes | got [0]  want [0, 1] | grid 1x2x1, a tensor that is cut
def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = list(range(first, first + tp)) if replicated else [rank]
    nodes = list(range(rank % (cp * tp), dp * cp * tp, cp * tp))
    counts = 1 if t == 0 or not replicated else 0
    return parts, nodes, counts
