# caught: first at  the end: unit 0 is still present | the next step would read
def schedule(sizes, budget):
    count = len(sizes)
    visits = [*range(count), *reversed(range(count))]
    return [("gather", unit) for unit in range(count)] + [("visit", unit) for unit in visits]
