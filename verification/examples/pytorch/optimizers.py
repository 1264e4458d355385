"""PyTorch's own optimizers, judged in place: optimizers.py [--seeds N] [--dialect NAME]

AdamW, Adam with L2 decay and SGD on the CPU, each as single, foreach and fused code, are held to the bits of their
dialects: every seed is a step of every size, offset and variant of the sweep, made of other numbers. --dialect holds all
of them to one dialect; to the contract's bits, for example, which none has. Needs torch and zproof. Exit 1 if a bit
differs.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import zproof

FORMS = {"single": {"foreach": False, "fused": False}, "foreach": {"foreach": True, "fused": False},
         "fused": {"foreach": False, "fused": True}}


def state_of(t, **buffers):
    return {"step": torch.tensor(float(t - 1)), **{name: buffer for name, buffer in buffers.items()}}


def adam(kind, form):
    def step(grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq, lr, betas, eps, weight_decay, amsgrad, maximize, t):
        parameter = torch.nn.Parameter(master.clone())
        parameter.grad = grad.clone()
        theirs = kind([parameter], lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                      maximize=maximize, **FORMS[form])
        largest = {"max_exp_avg_sq": max_exp_avg_sq} if amsgrad else {}
        theirs.state[parameter] = state_of(t, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq, **largest)
        theirs.step()
        master.copy_(parameter.detach())

    return step


def sgd(kind, form):
    def step(grad, master, momentum_buffer, lr, momentum, dampening, weight_decay, nesterov, maximize, t):
        parameter = torch.nn.Parameter(master.clone())
        parameter.grad = grad.clone()
        theirs = kind([parameter], lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                      nesterov=nesterov, maximize=maximize, **FORMS[form])
        if momentum != 0 and t > 1:  # it allocates the buffer in its first step
            theirs.state[parameter]["momentum_buffer"] = momentum_buffer
        theirs.step()
        master.copy_(parameter.detach())
        if momentum != 0:
            momentum_buffer.copy_(theirs.state[parameter]["momentum_buffer"])

    return step


#: name, operation, how it is called, class, dialect of single and foreach, of fused
OPTIMIZERS = [("AdamW", "adamw", adam, torch.optim.AdamW, "torch-cpu-single", "torch-cpu-fused"),
              ("Adam", "adam", adam, torch.optim.Adam, "torch-cpu-single", "torch-cpu-fused"),
              ("SGD", "sgd", sgd, torch.optim.SGD, "torch-sgd", "torch-sgd-fused")]


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--dialect")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds} (nothing would be judged); use 1 or more")
    cpus = Path("/proc/cpuinfo")
    amd = cpus.exists() and "AuthenticAMD" in cpus.read_text(encoding="utf-8")
    default = torch.backends.cpu.get_cpu_capability() == "DEFAULT"
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, fill training, {options.seeds} seeds")
    print(f"{'optimizer':<9} {'form':<8} {'held to':<24} {'compared':>13} {'differing':>11}")
    differing, notes = 0, set()
    for name, op, call, kind, plain, fused in OPTIMIZERS:
        for form in FORMS:
            dialect = options.dialect or (fused if form == "fused" else plain)
            if dialect == "torch-cpu-single" and not amd:
                notes.add(f"{name} {form} was not judged: its root is MKL's, which is known for AMD processors alone")
                continue
            if default and not options.dialect:  # without vectors a fused SGD has the bits of the others
                dialect = ("torch-sgd" if op == "sgd" else dialect) + "-default"
            verdicts, begin = [], time.monotonic()
            for seed in range(1, options.seeds + 1):
                verdicts.append(zproof.judge(call(kind, form), op, framework="torch", fills="training", seed=seed,
                                             accept="dialect:" + dialect, name=form))
            results = [one for verdict in verdicts for one in verdict.results]
            wrong = sum(one["differing"] for one in results) + sum(one["status"] != "pass" for one in results)
            differing += wrong
            notes |= {note for verdict in verdicts for note in verdict.notes}
            print(f"{name:<9} {form:<8} {dialect:<24} {sum(one['compared'] for one in results):>13,} {wrong:>11,} "
                  f" ({time.monotonic() - begin:.1f} s)", flush=True)
    for note in sorted(notes):
        print("note:", note)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
