"""adamw: R6, one rounding per operation."""

import numpy as np


def adamw(grad, master, exp_avg, exp_avg_sq, s):
    exp_avg = s.beta1 * exp_avg + s.one_minus_beta1 * grad
    exp_avg_sq = s.beta2 * exp_avg_sq + s.one_minus_beta2 * (grad * grad)
    denominator = np.sqrt(exp_avg_sq) / s.sqrt_bias_correction2 + s.eps
    update = s.step_size * (exp_avg / denominator)
    if s.has_decay:
        update = update + s.lr_weight_decay * master
    return master - update, exp_avg, exp_avg_sq
