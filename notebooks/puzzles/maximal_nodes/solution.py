"""maximal_nodes: from the left, the largest node that begins here and ends inside."""


def maximal_nodes(a, b):
    nodes = []
    while a < b:
        level = 0
        while a % 2**(level + 1) == 0 and a + 2**(level + 1) <= b:
            level += 1
        nodes.append((level, a // 2**level))
        a += 2**level
    return nodes
