#!/usr/bin/env python3
"""Records one step of a PyTorch training for zeroproof identify: a file for each rank and param group.

    with record_step(optimizer, "steps"):      # after clipping, instead of optimizer.step() alone
        optimizer.step()

A file of identify has one set of settings, so every param group gets its own. The update of Adam, AdamW and SGD is the
same for every element, so a rank writes the shard it owns (FSDP2's local tensors); all files together are the step:

    zeroproof identify steps/*.safetensors

As a program it trains a small model on two ranks with FSDP2 over gloo, one group without weight decay, and records step 3.
Needs torch and safetensors. Run it with: torchrun --nproc-per-node 2 record_step.py FOLDER [--wrong]
"""

import contextlib
import os
import sys

import torch
from safetensors.torch import save_file
from torch import nn

RULES = {torch.optim.AdamW: "adamw", torch.optim.Adam: "adam", torch.optim.SGD: "sgd"}
STATE = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"]


def local(tensor):
    """The part of a tensor on this rank, as a copy."""
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach().reshape(-1).clone().cpu()


def tensors_of(optimizer, parameters, when):
    tensors = {}
    for number, parameter in enumerate(parameters):
        tensors[f"{when}.master.{number}"] = local(parameter)
        for name in STATE:
            value = optimizer.state.get(parameter, {}).get(name)
            if value is not None:
                tensors[f"{when}.{name}.{number}"] = local(value)
    return tensors


def settings_of(optimizer, group, parameters):
    settings = {"rule": RULES[type(optimizer)], "lr": float(group["lr"]), "weight_decay": group["weight_decay"],
                "maximize": int(group["maximize"]), "program": f"PyTorch {torch.__version__}"}
    if settings["rule"] == "sgd":
        settings |= {"momentum": group["momentum"], "dampening": group["dampening"], "nesterov": int(group["nesterov"])}
    else:
        settings |= {"beta1": group["betas"][0], "beta2": group["betas"][1], "eps": group["eps"],
                     "amsgrad": int(group["amsgrad"]), "t": int(optimizer.state[parameters[0]]["step"])}
    return {name: value if isinstance(value, str) else repr(value) for name, value in settings.items()}


@contextlib.contextmanager
def record_step(optimizer, folder):
    """Writes folder/rankR-groupG.safetensors around the optimizer step in its body."""
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    os.makedirs(folder, exist_ok=True)
    groups = [[p for p in group["params"] if p.grad is not None] for group in optimizer.param_groups]
    before = []
    for parameters in groups:
        tensors = tensors_of(optimizer, parameters, "before")
        before.append(tensors | {f"before.grad.{n}": local(p.grad) for n, p in enumerate(parameters)})
    yield
    for number, (group, parameters) in enumerate(zip(optimizer.param_groups, groups)):
        if not parameters:
            continue
        after = tensors_of(optimizer, parameters, "after")
        for name, value in after.items():  # PyTorch makes the state of Adam in the first step, of zeros
            if not name.startswith("after.momentum_buffer"):
                before[number].setdefault(name.replace("after", "before", 1), torch.zeros_like(value))
        save_file(before[number] | after, f"{folder}/rank{rank}-group{number}.safetensors",
                  metadata=settings_of(optimizer, group, parameters))


class DecayLast(torch.optim.AdamW):
    """A wrong AdamW: it decays the parameters after the update."""

    def step(self):
        decays = [group["weight_decay"] for group in self.param_groups]
        for group in self.param_groups:
            group["weight_decay"] = 0.0
        super().step()
        for group, decay in zip(self.param_groups, decays):
            group["weight_decay"] = decay
            with torch.no_grad():
                for parameter in group["params"]:
                    parameter.mul_(1 - group["lr"] * decay)


RULES[DecayLast] = "adamw"


def main():
    from torch.distributed.fsdp import fully_shard
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 61), nn.GELU(), nn.Linear(61, 7))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    fully_shard(model, mesh=mesh)
    vectors = [p for p in model.parameters() if p.ndim == 1]
    matrices = [p for p in model.parameters() if p.ndim > 1]
    kind = DecayLast if "--wrong" in sys.argv else torch.optim.AdamW
    optimizer = kind([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], lr=1e-2, weight_decay=0.1)
    torch.manual_seed(torch.distributed.get_rank())
    for step in range(1, 4):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 33)).square().mean()
        loss.backward()
        with record_step(optimizer, sys.argv[1]) if step == 3 else contextlib.nullcontext():
            optimizer.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
