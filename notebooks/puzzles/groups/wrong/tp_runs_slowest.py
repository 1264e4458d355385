# caught: first at  step 1  phase reduce  rank 0  buffer nodes | got [0, 1]  want [0, 2]
def groups(rank, dp, cp, tp, replicated):
    t = rank // (dp * cp)
    parts = list(range(rank % (dp * cp), dp * cp * tp, dp * cp)) if replicated else [rank]
    nodes = list(range(t * dp * cp, (t + 1) * dp * cp))
    counts = 1 if t == 0 or not replicated else 0
    return parts, nodes, counts
