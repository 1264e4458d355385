"""AdamW of your library, in its test suite. With WRONG=1 in the environment it is wrong.

Needs pytest and zproof, whose plug-in brings the fixture zproof.
"""

import os

import numpy as np
import pytest
from zproof import reference

fp32 = np.float32


def adamw(grad, master, exp_avg, exp_avg_sq, scalars):
    s = scalars
    rest2 = s.one_minus_beta2
    if os.environ.get("WRONG") == "1":
        rest2 = np.float16(rest2)  # a constant in half precision
    exp_avg[...] = fp32(s.beta1) * exp_avg + fp32(s.one_minus_beta1) * grad
    exp_avg_sq[...] = fp32(s.beta2) * exp_avg_sq + fp32(rest2) * (grad * grad)
    a = fp32(s.step_size) * (exp_avg / (np.sqrt(exp_avg_sq) / fp32(s.sqrt_bias_correction2) + fp32(s.eps)))
    master -= a + fp32(s.lr_weight_decay) * master if s.has_decay else a


@pytest.mark.zproof(op="adamw", dtype="fp32", fills="training")
def test_every_bit(zproof):
    """Sizes, alignments, settings and numbers are zproof's."""
    zproof.judge(adamw)


def test_a_step_of_mine(zproof):
    """Your own numbers, against the reference and against stored correct results."""
    scalars = type("Scalars", (), reference.step_scalars("adamw", t=5, lr=1e-3, weight_decay=0.01))
    grad = np.linspace(-1, 1, 37, dtype=fp32)
    before = {"master": np.ones(37, fp32), "exp_avg": grad / fp32(8), "exp_avg_sq": np.abs(grad)}
    after = {name: array.copy() for name, array in before.items()}
    adamw(grad, **after, scalars=scalars)
    expected = reference.adamw(grad, **before, t=5, lr=1e-3, weight_decay=0.01)
    zproof.assert_step_close(after, expected, before=before, inputs={"grad": grad})
    zproof.golden("step", after)
