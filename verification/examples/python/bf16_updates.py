"""AdamW, SGD and Lion of bf16 parameters without an fp32 master, in numpy; and wrong forms of AdamW.

bf16 arrays are ml_dtypes' where that package is installed, else unsigned integers: both are read by their bits."""

import numpy as np

fp32 = np.float32


def widened(array):
    return (array.view(np.uint16).astype(np.uint32) << 16).view(fp32)


def rounded(values):
    """To nearest even, the one rounding to bf16 of a step."""
    bits = values.view(np.uint32).astype(np.uint64)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), nearest)


def truncated(values):
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def moved(grad, exp_avg, exp_avg_sq, s):
    """New moments, in fp32 and in place, and the step they make."""
    g = widened(grad)
    exp_avg[...] = fp32(s.beta1) * exp_avg + fp32(s.one_minus_beta1) * g
    exp_avg_sq[...] = fp32(s.beta2) * exp_avg_sq + fp32(s.one_minus_beta2) * (g * g)
    return fp32(s.step_size) * (exp_avg / (np.sqrt(exp_avg_sq) / fp32(s.sqrt_bias_correction2) + fp32(s.eps)))


@np.errstate(all="ignore")
def adamw_update_bf16(grad, master, exp_avg, exp_avg_sq, *, scalars, cast=rounded):
    update = moved(grad, exp_avg, exp_avg_sq, scalars)
    before = widened(master)
    if scalars.has_decay:
        update = update + fp32(scalars.lr_weight_decay) * before
    master.view(np.uint16)[...] = cast(before - update)


def adamw_update_bf16_truncated(grad, master, exp_avg, exp_avg_sq, *, scalars):
    adamw_update_bf16(grad, master, exp_avg, exp_avg_sq, scalars=scalars, cast=truncated)


@np.errstate(all="ignore")
def adamw_update_bf16_decay_rounded(grad, master, exp_avg, exp_avg_sq, *, scalars):
    """The decay stores the parameter, and the step rounds it again."""
    update = moved(grad, exp_avg, exp_avg_sq, scalars)
    before = widened(master)
    if scalars.has_decay:
        before = widened(rounded(before - fp32(scalars.lr_weight_decay) * before))
    master.view(np.uint16)[...] = rounded(before - update)


@np.errstate(all="ignore")
def sgd_update_bf16(grad, master, momentum_buffer, *, scalars, momentum, nesterov, cast=rounded):
    g, before = widened(grad), widened(master)
    if scalars.has_decay:
        g = g + fp32(scalars.weight_decay) * before
    step = g
    if momentum:
        if not scalars.is_first:
            step = fp32(scalars.momentum) * momentum_buffer + fp32(scalars.one_minus_dampening) * g
        momentum_buffer[...] = step
        if nesterov:
            step = g + fp32(scalars.momentum) * step
    master.view(np.uint16)[...] = cast(before - fp32(scalars.lr) * step)


@np.errstate(all="ignore")
def lion_update_bf16(grad, master, exp_avg, *, scalars, cast=rounded):
    g, before = widened(grad), widened(master)
    c = fp32(scalars.beta1) * exp_avg + fp32(scalars.one_minus_beta1) * g
    update = fp32(scalars.lr) * np.where(c == 0, c, np.sign(c))  # the sign of a zero is that zero
    if scalars.has_decay:
        update = update + fp32(scalars.lr_weight_decay) * before
    exp_avg[...] = fp32(scalars.beta2) * exp_avg + fp32(scalars.one_minus_beta2) * g
    master.view(np.uint16)[...] = cast(before - update)
