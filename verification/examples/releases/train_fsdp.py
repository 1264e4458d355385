#!/usr/bin/env python3
"""Trains a small model with FSDP2 over gloo and records every step; judge_releases.py starts it.

torchrun --nproc-per-node 2 train_fsdp.py FOLDER [--norm local|library]
"""

import argparse

import torch
import zproof
from torch import nn
from torch.distributed.fsdp import fully_shard

MAX_NORM = 1e-7


def clip(parameters, norm):
    """Clips by the norm of the library, or as programs that were written for unsharded tensors do: each rank by its part."""
    if norm == "library":
        nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        return
    grads = [parameter.grad.to_local() for parameter in parameters]
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))
    for grad in grads:
        grad.mul_(torch.clamp(MAX_NORM / (total + 1e-6), max=1.0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--norm", choices=["library", "local"], default="library")
    given = parser.parse_args()
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 61), nn.GELU(), nn.Linear(61, 7))
    for module in (model[0], model):
        fully_shard(module, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    torch.manual_seed(1 + torch.distributed.get_rank())
    with zproof.torch.record(optimizer, model, given.folder, max_norm=MAX_NORM if given.norm == "local" else None):
        for _ in range(3):
            (model(torch.randn(16, 33)).square().mean() * 1e-6).backward()  # gradients near the eps of the clip
            clip(list(model.parameters()), given.norm)
            optimizer.step()
            optimizer.zero_grad()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
