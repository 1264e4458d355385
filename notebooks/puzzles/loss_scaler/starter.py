"""The loss scale after a step, an automaton of three integers (lesson 4; R14, loss_scaler.hpp)."""


def loss_scaler(config, state, found_inf):
    """The state after a step. found_inf is 1 if the unscaled gradient had an infinity or NaN.

    A state is a tuple of three integers: the exponent of the scale; good steps since the last
    growth or overflow (the tracker); overflows until the scale shrinks (left). With config.kind
    "constant" nothing changes. "dynamic":

    overflow:   the tracker becomes 0; left goes down by 1, not below 0; if it is 0 then, the
                exponent goes down by config.log2_backoff, not below config.log2_min.
    no overflow: the tracker goes up by 1; with config.refill "good_step" left becomes
                 config.hysteresis. If the tracker then equals config.growth_interval, it becomes 0,
                 left becomes config.hysteresis, and the exponent goes up by config.log2_growth,
                 unless that would exceed config.log2_max: then it stays.
    """
    # TODO: three integers
