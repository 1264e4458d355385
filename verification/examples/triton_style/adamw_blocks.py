"""AdamW in masked blocks, as a kernel has it, judged through files: adamw_blocks.py CALL RESULTS [--wrong]

A stand-in of the same shape as adamw_triton.py where Triton is not. Needs numpy and safetensors from PyPI.
"""

import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

BLOCK, WRONG = 256, "--wrong" in sys.argv


def adamw(program_id, grad, master, exp_avg, exp_avg_sq, n, beta1, rest1, beta2, rest2, root, eps, step_size, decay):
    at = program_id * BLOCK + np.arange(BLOCK)
    at = at[at < (n // 16 * 16 if WRONG else n)]  # wrong: as if all lengths were multiples of 16
    g, p = grad[at], master[at]
    m = exp_avg[at] = beta1 * exp_avg[at] + rest1 * g
    v = exp_avg_sq[at] = beta2 * exp_avg_sq[at] + rest2 * (g * g)
    d = np.sqrt(v) / root + eps
    master[at] = p - (step_size * (m / d) + decay * p)


with safe_open(sys.argv[1], "np") as call:
    setting = {name[8:]: np.float32(value) for name, value in call.metadata().items() if name.startswith("setting.")}
    buffers = {name[7:]: call.get_tensor(name) for name in call.keys()}
scalars = [setting[name] for name in (
    "beta1", "scalar.one_minus_beta1", "beta2", "scalar.one_minus_beta2", "scalar.sqrt_bias_correction2",
    "scalar.eps", "scalar.step_size", "scalar.lr_weight_decay")]
updated = [buffers[name] for name in ("grad", "master", "exp_avg", "exp_avg_sq")]
n = updated[0].size
for block in range(-(-n // BLOCK)):
    adamw(block, *updated, n, *scalars)
save_file({f"after.{name}": array for name, array in buffers.items() if name != "grad"}, sys.argv[2])
