# caught: a race: compute 0 and gather 2 touch place 0, and no wait orders them | a forward pass of 3 units
def repair(operations, waits):
    pairs = []
    for i, one in enumerate(operations):
        for other in operations[i + 1:]:
            if one.stream != other.stream and one.writes & other.reads:
                pairs.append((one.name, other.name))
    return pairs
