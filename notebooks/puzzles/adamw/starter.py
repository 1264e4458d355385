"""AdamW in numpy, every bit of a thousand steps (lesson 3; rule R6 of common/CONTRACT.md)."""


def adamw(grad, master, exp_avg, exp_avg_sq, s):
    """Returns new fp32 arrays (master, exp_avg, exp_avg_sq), from fp32 arrays and the scalars of
    this step:

    s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2, s.sqrt_bias_correction2, s.step_size,
    s.eps and s.lr_weight_decay are fp32, s.has_decay is 0 or 1.

    numpy rounds every operation on fp32 arrays once, as the contract requires; only the order is
    open.
    """
    # TODO: R6, rule adamw
