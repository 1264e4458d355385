"""AdamW as a Triton kernel, judged through files: adamw_triton.py CALL RESULTS [--wrong]

Without a GPU: TRITON_INTERPRET=1. Needs torch, triton and safetensors from PyPI, and nothing of zeroproof.
"""

import sys

import torch
import triton
import triton.language as tl
from safetensors import safe_open
from safetensors.torch import save_file


@triton.jit
def adamw(grad, master, exp_avg, exp_avg_sq, n, beta1, rest1, beta2, rest2, root, eps, step_size, decay,
          WRONG: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < (n // 16 * 16 if WRONG else n)  # wrong: as if all lengths were multiples of 16
    g, p = tl.load(grad + at, mask), tl.load(master + at, mask)
    m = beta1 * tl.load(exp_avg + at, mask) + rest1 * g
    v = beta2 * tl.load(exp_avg_sq + at, mask) + rest2 * (g * g)
    d = tl.div_rn(tl.sqrt_rn(v), root) + eps  # rounded to nearest, as the contract has it
    tl.store(exp_avg + at, m, mask)
    tl.store(exp_avg_sq + at, v, mask)
    tl.store(master + at, p - (step_size * tl.div_rn(m, d) + decay * p), mask)


device = "cuda" if torch.cuda.is_available() else "cpu"
with safe_open(sys.argv[1], "pt", device) as call:
    setting = {name[8:]: float(value) for name, value in call.metadata().items() if name.startswith("setting.")}
    buffers = {name[7:]: call.get_tensor(name) for name in call.keys()}
scalars = [setting[name] for name in (
    "beta1", "scalar.one_minus_beta1", "beta2", "scalar.one_minus_beta2", "scalar.sqrt_bias_correction2",
    "scalar.eps", "scalar.step_size", "scalar.lr_weight_decay")]
updated = [buffers[name] for name in ("grad", "master", "exp_avg", "exp_avg_sq")]
n = updated[0].numel()
adamw[(triton.cdiv(n, 256),)](*updated, n, *scalars, WRONG="--wrong" in sys.argv, BLOCK=256,
                              enable_fp_fusion=False)  # a fused multiply-add rounds once where two roundings are meant
save_file({f"after.{name}": tensor.cpu() for name, tensor in buffers.items() if name != "grad"}, sys.argv[2])
