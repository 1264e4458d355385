# caught: right bits, over budget: visits that wait for their gather: 5, and the plan has 1 | a budget of 16
def schedule(sizes, budget):
    visits = [*range(len(sizes)), *reversed(range(len(sizes)))]
    actions = []
    for before, unit, following in zip([None] + visits, visits, visits[1:] + [None]):
        if before != unit:
            actions.append(("gather", unit))
        actions.append(("visit", unit))
        if following != unit:
            actions.append(("release", unit))
    return actions
