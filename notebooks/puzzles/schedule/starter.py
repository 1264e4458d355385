"""Borrowed parameters: who is gathered, visited and released, when, within a budget (lesson 8; stage 3)."""


def schedule(sizes, budget):
    """A list of (action, unit), in the order in which one rank does them. sizes[i] is what unit i takes while it is
    present, in bytes; never may more than budget be present, and the largest unit alone always fits.

    ("gather", i) begins to bring unit i, and its bytes count from here on; ("release", i) gives it back. ("visit", i)
    computes with it: first the forward pass, from unit 0 to the last, then the backward pass, from the last to unit 0.
    A visit of what is not present reads NaN. At the end nothing is present, for the update makes new parameters.

    The plan has 2 n - 1 gathers for n units. A visit waits if its unit was gathered after the visit before; as many as
    two neighbours fit the budget, a unit is gathered one visit early.
    """
    # TODO: forward, backward, and the unit between them
