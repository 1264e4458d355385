"""AdamW with PyTorch, judged in place: adamw.py [--wrong]

Needs torch and zproof. `adamw` is written by hand, in the contract's order; `optimizer` is PyTorch's own fused one, whose
order of operations is another, and known to zproof as a dialect.
"""

import sys

import torch
import zproof

WRONG = "--wrong" in sys.argv


def adamw(grad, master, exp_avg, exp_avg_sq, scalars):
    s = {name: torch.tensor(value) for name, value in vars(scalars).items()}  # fp32, as a kernel has them
    exp_avg.copy_(s["beta1"] * exp_avg + s["one_minus_beta1"] * grad)
    exp_avg_sq.copy_(s["beta2"] * exp_avg_sq + s["one_minus_beta2"] * (grad * grad))
    root = exp_avg_sq.double().sqrt().float()  # torch.sqrt of fp32 is one place off here and there on some processors
    a = s["step_size"] * (exp_avg / (root / s["sqrt_bias_correction2"] + s["eps"]))
    before = master - a if WRONG else master  # wrong: the decay of the already updated parameter
    master.copy_(master - (a + s["lr_weight_decay"] * before if s["has_decay"] else a))


def optimizer(grad, master, exp_avg, exp_avg_sq, lr, betas, eps, weight_decay, t):
    parameter = torch.nn.Parameter(master.clone())
    parameter.grad = grad.clone()
    theirs = torch.optim.AdamW([parameter], lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)
    theirs.state[parameter] = {"step": torch.tensor(float(t if WRONG else t - 1)),  # wrong: this step counted twice
                               "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    theirs.step()
    master.copy_(parameter.detach())


if __name__ == "__main__":
    by_hand = zproof.judge(adamw, op="adamw", framework="torch", fills="training")
    print(by_hand)
    fused = zproof.judge(optimizer, op="adamw", framework="torch", fills="training", accept="dialect:torch-cpu-fused")
    print(fused)
    sys.exit(0 if by_hand and fused else 1)
