# caught: right order, over budget: the wait of gather 1 for compute 0 orders more than it has to
def repair(operations, waits):
    neighbours = zip(operations, operations[1:])
    return [(one.name, other.name) for one, other in neighbours if one.stream != other.stream]
