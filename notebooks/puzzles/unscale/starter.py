"""The scale and the divisor are taken out, and all ranks know of an infinity (lessons 4 and 5; rules R6, R14)."""


def unscale(rank, grad_sum, inv_scale, comm, memory):
    """(g1, found_inf) of this rank: a new fp32 array of grad_sum's shape, and an integer. Every rank runs this.

    Every element is multiplied by inv_scale (fp32, one rounding). found_inf is 1 on every rank if an element of the
    product is not finite on any rank, otherwise 0.

    comm.all_reduce(words) adds integers over ranks. `zeroproof plan` has one word of 8 bytes to every other rank, once,
    and so have you; what you send and get may be two words at once.
    """
    # TODO: the product, the flag, and everybody's flag
