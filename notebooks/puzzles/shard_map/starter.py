"""Who owns what: every element has one owner, on any number of ranks (lesson 6; rule R13, one bucket)."""


def shard_map(sizes, ranks):
    """For every rank a list of (tensor, begin, end): the elements it owns, in order, without empty ones.

    `sizes` are the numbers of elements of tensors 0, 1, 2, ... They stand one after another in one numbering, each
    beginning at the next multiple of 1024, so that all of them fill a number of chunks of 1024 elements. Of C chunks,
    rank r owns floor(C * r / ranks) up to (not including) floor(C * (r + 1) / ranks). Padding belongs to no tensor.
    A tensor may have no elements, and a rank may own nothing: its list is empty then.
    """
    # TODO: cut, and translate to tensors
