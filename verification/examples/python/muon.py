"""Muon in numpy: momentum, Newton-Schulz with the coefficients of Jordan in bf16, and the update; and wrong forms."""

import math

import numpy as np

fp32 = np.float32
A, B, C = fp32(3.4445), fp32(-4.7750), fp32(2.0315)


def rounded(values):
    """To bf16, to nearest even."""
    bits = values.view(np.uint32).astype(np.uint64)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(fp32)
    return np.where(np.isnan(values), fp32(np.nan), nearest)


def product(x, y):
    """x times y transposed, in 8 blocks of terms; a product of two bf16 numbers is exact in fp32."""
    inner, sums = x.shape[1], []
    for block in range(8):
        total = np.zeros((x.shape[0], y.shape[0]), fp32)
        for q in range(inner * block // 8, inner * (block + 1) // 8):
            total = total + np.outer(x[:, q], y[:, q])
        sums.append(total)
    s = sums
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def matrix_product(left, right):
    return product(rounded(left), rounded(right))


def newton_schulz(matrix, steps, eps, *, transposes=True):
    exact = matrix.astype(np.float64)
    norm = math.sqrt(math.fsum(np.square(exact).ravel()))
    x = rounded((exact / max(norm, eps)).astype(fp32))
    tall = transposes and x.shape[0] > x.shape[1]
    x = np.ascontiguousarray(x.T) if tall else x
    for _ in range(steps):
        a = rounded(product(x, x))
        b = rounded(B * a + C * product(a, a))
        x = rounded(A * x + product(b, np.ascontiguousarray(x.T)))
    return np.ascontiguousarray(x.T) if tall else x


def newton_schulz_of_rows(matrix, steps, eps):
    """Tall matrices are not transposed: the same polynomial, of the larger square."""
    return newton_schulz(matrix, steps, eps, transposes=False)


def muon_momentum(grad, exp_avg, direction, *, scalars, nesterov, maximize):
    g = -grad if maximize else grad
    added = fp32(scalars.one_minus_dampening) * g
    exp_avg[...] = fp32(scalars.momentum) * exp_avg + added
    direction[...] = added + fp32(scalars.momentum) * exp_avg if nesterov else exp_avg


def muon_momentum_as_lerp(grad, exp_avg, direction, *, scalars, nesterov, maximize):
    """A legal order: differences instead of sums, as torch.lerp computes the average. Heavy balls have none."""
    g = -grad if maximize else grad
    mu, new = fp32(scalars.momentum), fp32(scalars.one_minus_dampening)
    step = (lambda old: old + new * (g - old)) if new != 1 else (lambda old: mu * old + g)
    exp_avg[...] = step(exp_avg)
    direction[...] = step(exp_avg) if nesterov else exp_avg


def muon_update(orthogonal, master, *, step_size, scalars):
    a = fp32(step_size) * orthogonal
    master[...] = master - (a + fp32(scalars.lr_weight_decay) * master if scalars.has_decay else a)


def muon_update_decays_last(orthogonal, master, *, step_size, scalars):
    moved = master - fp32(step_size) * orthogonal
    master[...] = moved - fp32(scalars.lr_weight_decay) * moved if scalars.has_decay else moved
