# caught: waiting for ever: gather 0 waits, in the end, for itself
def repair(operations, waits):
    pairs = [(second, first) for first, second in waits]
    return pairs + [(first, second) for first, second in waits]
