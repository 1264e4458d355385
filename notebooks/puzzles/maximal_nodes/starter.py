"""The nodes that a rank with leaves [a, b) sends: the largest inside its block (lesson 2; R11)."""


def maximal_nodes(a, b):
    """Returns a list of (level, index), from left to right. Node (l, k) covers the leaves k * 2^l
    up to (k + 1) * 2^l - 1.

    Together they cover exactly the leaves a, a+1, ... b-1, and no two of them are the halves of one
    node: [5, 11) has the nodes (0, 5), (1, 3), (1, 4) and (0, 10). A block without leaves has none.
    b may be as large as 2^40.
    """
    # TODO: which nodes?
