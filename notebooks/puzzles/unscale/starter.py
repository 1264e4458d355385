"""Removes scale and divisor; all ranks agree on found_inf (lessons 4 and 5; rules R6, R14)."""


def unscale(rank, grad_sum, inv_scale, comm, memory):
    """Returns (g1, found_inf): a new fp32 array of grad_sum's shape, and an integer. Ranks are
    threads.

    Every element is multiplied by inv_scale (fp32, one rounding). found_inf is 1 on every rank if
    an element of the product is not finite on any rank, otherwise 0.

    comm.all_reduce(words) adds integers over ranks. The budget is that of `zeroproof plan`: one
    word of 8 bytes to every other rank, once, and two words held at a time.
    """
    # TODO: the product, this rank's flag, and the combined flag
