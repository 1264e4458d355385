# caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | M = 4 leaves of 5 elements | element   [2]
def add_tree(leaves):
    total = leaves[0].copy()
    for leaf in leaves[1:]:
        total = total + leaf
    return total
