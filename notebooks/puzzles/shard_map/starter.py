"""The owner of every element, on any number of ranks (lesson 6; rule R13, one bucket)."""


def shard_map(sizes, ranks):
    """Returns for every rank a list of (tensor, begin, end): the elements it owns, in order, no
    empty ones.

    `sizes` are the numbers of elements of tensors 0, 1, 2, ... Tensors follow one another in one
    flat range, each beginning at the next multiple of 1024, so that they fill whole chunks of 1024
    elements. Of C chunks, rank r owns floor(C * r / ranks) up to (not including) floor(C * (r + 1)
    / ranks). Padding belongs to no tensor. A tensor may have no elements, and a rank that owns
    nothing has an empty list.
    """
    # TODO: split the flat range, and translate to tensors
