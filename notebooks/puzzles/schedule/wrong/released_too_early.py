# caught: first at  step 1  phase backward  rank 0  buffer unit 2 | values    got 0x7fffffff (nan)
def schedule(sizes, budget):
    actions = []
    for unit in range(len(sizes)):
        actions += [("gather", unit), ("visit", unit), ("release", unit)]
    for unit in reversed(range(len(sizes))):
        if unit + 1 < len(sizes):
            actions.append(("gather", unit))
        actions.append(("visit", unit))
        if unit + 1 < len(sizes):
            actions.append(("release", unit))
    return actions
