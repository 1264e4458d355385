# caught: first at  step 1  phase reduce  rank 0  buffer nodes | block [5, 11) | element   [1] | got (0, 6)  want (1, 3)
def maximal_nodes(a, b):
    return [(0, j) for j in range(a, min(b, a + 1000))]
