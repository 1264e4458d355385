# caught: right bits, over budget: gathers: 6, and the plan has 5
def schedule(sizes, budget):
    actions = []
    for unit in [*range(len(sizes)), *reversed(range(len(sizes)))]:
        actions += [("gather", unit), ("visit", unit), ("release", unit)]
    return actions
