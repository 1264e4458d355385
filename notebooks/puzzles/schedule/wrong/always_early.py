# caught: right bits, over budget: bytes present at most: 16, and the plan has 8 | a budget of 8
def schedule(sizes, budget):
    visits = [*range(len(sizes)), *reversed(range(len(sizes)))]
    actions = [("gather", unit) for unit in visits[:1]]
    for unit, following in zip(visits, visits[1:] + [None]):
        if following not in (None, unit):
            actions.append(("gather", following))
        actions.append(("visit", unit))
        if following != unit:
            actions.append(("release", unit))
    return actions
