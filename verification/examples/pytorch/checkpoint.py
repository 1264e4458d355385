"""A checkpoint, continued in PyTorch, and back: checkpoint.py STATE GRADS FIRST LAST OUT

Needs torch and safetensors, and a run of the rule adamw. STATE is what `zeroproof checkpoint export` wrote: it becomes
the state_dict of a torch.optim.AdamW, which makes the steps FIRST to LAST with the gradients that `zeroproof record`
wrote. OUT is the state after them, for `zeroproof checkpoint import`.
"""

import sys
import tomllib

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

state_file, grads_file, first, last, out = sys.argv[1:]
state = load_file(state_file)
names = [name.removeprefix("master.") for name in state if name.startswith("master.")]
with safe_open(grads_file, "pt") as grads:
    settings = tomllib.loads(grads.metadata()["settings"])
    micro_batches = settings["run"]["micro_batches"]
    hyper = settings["optimizer"]
    if hyper["rule"] != "adamw" or hyper["amsgrad"] or any(f"exp_avg_sq.{name}" not in state for name in names):
        sys.exit(f"checkpoint.py: {state_file} is a state of the rule {hyper['rule']}{' with amsgrad' * hyper['amsgrad']}, "
                 f"by {grads_file} (it becomes one of torch.optim.AdamW); use a run of adamw")
    parameters = [torch.nn.Parameter(state[f"master.{name}"].clone()) for name in names]
    optimizer = torch.optim.AdamW(parameters, lr=hyper["lr"], betas=(hyper["beta1"], hyper["beta2"]),
                                  eps=hyper["eps"], weight_decay=hyper["weight_decay"])
    step = state["step"].to(torch.float32)
    optimizer.load_state_dict({"param_groups": optimizer.state_dict()["param_groups"], "state": {
        i: {"step": step.clone(), "exp_avg": state[f"exp_avg.{name}"], "exp_avg_sq": state[f"exp_avg_sq.{name}"]}
        for i, name in enumerate(names)}})
    for number in range(int(first), int(last) + 1):
        for name, parameter in zip(names, parameters):
            leaves = [grads.get_tensor(f"grad.{number}.{j}.{name}") for j in range(micro_batches)]
            parameter.grad = torch.stack(leaves).sum(0) / micro_batches
        optimizer.step()

theirs = optimizer.state_dict()["state"]
state["step"] = theirs[0]["step"].to(torch.int64)
for i, (name, parameter) in enumerate(zip(names, parameters)):
    state[f"master.{name}"] = parameter.detach()
    state[f"exp_avg.{name}"], state[f"exp_avg_sq.{name}"] = theirs[i]["exp_avg"], theirs[i]["exp_avg_sq"]
save_file(state, out)
print(f"{out}: {len(names)} parameters after step {last}, by torch.optim.AdamW")
