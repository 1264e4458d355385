# caught: right bits, over budget: bytes present at most: 24, and the plan has 16
def schedule(sizes, budget):
    count = len(sizes)
    visits = [*range(count), *reversed(range(count))]
    return ([("gather", unit) for unit in range(count)] + [("visit", unit) for unit in visits] +
            [("release", unit) for unit in range(count)])
