# caught: first at  action 10, visit 0: unit 0 is visited where the backward pass is at unit 2
def schedule(sizes, budget):
    actions = []
    for unit in [*range(len(sizes)), *range(len(sizes))]:
        actions += [("gather", unit), ("visit", unit), ("release", unit)]
    return actions[:-1]
