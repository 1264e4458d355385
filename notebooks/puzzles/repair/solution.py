"""repair: pairs of two streams that access a buffer, except those that other pairs order."""


def repair(operations, waits):
    def touch(one, other):
        return one.writes & (other.reads | other.writes) or other.writes & one.reads

    order = list(enumerate(operations))
    pairs = {(i, j) for i, one in order for j, other in order
             if i < j and (one.stream == other.stream or touch(one, other))}

    def reaches(i, j, without):
        return any(a == i and (a, b) != without and (b == j or reaches(b, j, without)) for a, b in pairs)

    return [(operations[i].name, operations[j].name) for i, j in sorted(pairs)
            if operations[i].stream != operations[j].stream and not reaches(i, j, (i, j))]
