# caught: first at  step 1  phase update  rank 0  buffer master | with decay, t = 1
import numpy as np


def adamw(grad, master, exp_avg, exp_avg_sq, s):
    exp_avg = s.beta1 * exp_avg + s.one_minus_beta1 * grad
    exp_avg_sq = s.beta2 * exp_avg_sq + s.one_minus_beta2 * (grad * grad)
    d = np.sqrt(exp_avg_sq) / s.sqrt_bias_correction2 + s.eps
    if s.has_decay:
        master = master - s.lr_weight_decay * master
    return master - s.step_size * (exp_avg / d), exp_avg, exp_avg_sq
