"""schedule: a visit gathers the next unit if it fits, and releases its own if it is not next."""


def schedule(sizes, budget):
    visits = [*range(len(sizes)), *reversed(range(len(sizes)))]
    actions, present = [], None
    for unit, following in zip(visits, visits[1:] + [None]):
        if present != unit:
            actions.append(("gather", unit))
        early = following not in (None, unit) and sizes[unit] + sizes[following] <= budget
        if early:
            actions.append(("gather", following))
        actions.append(("visit", unit))
        if following != unit:
            actions.append(("release", unit))
        present = following if early or following == unit else None
    return actions
