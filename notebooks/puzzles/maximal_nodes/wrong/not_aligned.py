# caught: first at  step 1  phase reduce  rank 0  buffer nodes | block [5, 11) | element   [0] | got (2, 1)  want (0, 5)
def maximal_nodes(a, b):
    nodes = []
    while a < b:
        level = (b - a).bit_length() - 1
        nodes.append((level, a // 2**level))
        a += 2**level
    return nodes
