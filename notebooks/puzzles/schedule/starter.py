"""Gathers, visits and releases of units within a memory budget (lesson 8; stage 3)."""


def schedule(sizes, budget):
    """Returns a list of (action, unit), the actions of a rank in order. sizes[i] is the size of
    unit i in bytes while it is present; at most budget bytes may be present, and the largest unit
    alone always fits.

    ("gather", i) starts the gather of unit i, and its bytes count from here on; ("release", i)
    frees it. ("visit", i) computes with it: first the forward pass, from unit 0 to the last, then
    the backward pass, from the last to unit 0. A visit of a unit that is not present reads NaN. At
    the end no unit may be present, because the update computes new parameters.

    The plan has 2 n - 1 gathers for n units. A visit waits if its unit was gathered after the visit
    before; whenever two neighbours fit into the budget, a unit is gathered one visit early.
    """
    # TODO: forward, backward, and the unit between them
