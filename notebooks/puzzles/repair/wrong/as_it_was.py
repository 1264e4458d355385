# caught: a race: gather 0 and compute 0 touch place 0, and no wait orders them
def repair(operations, waits):
    return list(waits)
