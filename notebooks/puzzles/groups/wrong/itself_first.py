# caught: first at  step 1  phase reduce  rank 1  buffer parts | got [1, 0]  want [0, 1]
def groups(rank, dp, cp, tp, replicated):
    t = rank % tp
    first = rank - t
    parts = [rank] + [first + i for i in range(tp) if i != t] if replicated else [rank]
    nodes = list(range(t, dp * cp * tp, tp))
    counts = 1 if t == 0 or not replicated else 0
    return parts, nodes, counts
