"""AdamW in numpy, with the contract's order of operations; and a wrong form with eps inside the root."""

import numpy as np

fp32 = np.float32


def moments(grad, exp_avg, exp_avg_sq, s):
    exp_avg[...] = fp32(s.beta1) * exp_avg + fp32(s.one_minus_beta1) * grad
    exp_avg_sq[...] = fp32(s.beta2) * exp_avg_sq + fp32(s.one_minus_beta2) * (grad * grad)


def move(master, exp_avg, denominator, s):
    update = fp32(s.step_size) * (exp_avg / denominator)
    if s.has_decay:
        update = update + fp32(s.lr_weight_decay) * master
    master[...] = master - update


@np.errstate(all="ignore")
def adamw_step(grad, master, exp_avg, exp_avg_sq, *, scalars):
    moments(grad, exp_avg, exp_avg_sq, scalars)
    move(master, exp_avg, np.sqrt(exp_avg_sq) / fp32(scalars.sqrt_bias_correction2) + fp32(scalars.eps), scalars)


@np.errstate(all="ignore")
def eps_inside(grad, master, exp_avg, exp_avg_sq, *, scalars):
    moments(grad, exp_avg, exp_avg_sq, scalars)
    move(master, exp_avg, np.sqrt(exp_avg_sq + fp32(scalars.eps)) / fp32(scalars.sqrt_bias_correction2), scalars)
