# caught: first at  step 1  phase reduce  rank 0  buffer grad_sum | M = 3 leaves of 5 elements
def add_tree(leaves):
    if len(leaves) == 1:
        return leaves[0].copy()
    middle = len(leaves) // 2
    return add_tree(leaves[:middle]) + add_tree(leaves[middle:])
