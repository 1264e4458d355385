# caught: right order, over budget: the wait of | is needless, the others order them | a forward pass of 3 units
def repair(operations, waits):
    pairs = []
    for i, one in enumerate(operations):
        for other in operations[i + 1:]:
            touch = one.writes & (other.reads | other.writes) or other.writes & one.reads
            if one.stream != other.stream and touch:
                pairs.append((one.name, other.name))
    return pairs
