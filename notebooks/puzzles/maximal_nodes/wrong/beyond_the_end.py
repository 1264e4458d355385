# caught: first at  step 1  phase reduce  rank 0  buffer nodes | block [5, 11) | element   [2] | got (3, 1)  want (1, 4)
def maximal_nodes(a, b):
    nodes = []
    while a < b:
        level = 0
        while a % 2**(level + 1) == 0 and a < b and level < 40:
            level += 1
        nodes.append((level, a // 2**level))
        a += 2**level
    return nodes
