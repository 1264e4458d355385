"""The sum of the gradients of M micro-batches, in every bit (lesson 2; rule R11 of common/CONTRACT.md)."""


def add_tree(leaves):
    """Returns a new fp32 array: the sum of `leaves`, a list of M fp32 arrays of one shape.

    Node (0, j) is leaf j. Node (l, k) is node (l-1, 2k) + node (l-1, 2k+1), one fp32 addition; if
    the second one covers no leaf, it is the first one unchanged. The result is the lowest node that
    covers all leaves.
    """
    # TODO: the order of the additions
