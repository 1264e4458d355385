#!/usr/bin/env python3
"""Trains a small model with DeepSpeed over gloo and records every step; judge_releases.py starts it.

DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 train_deepspeed.py FOLDER [--stage 2] [--dtype bf16] ...
"""

import argparse

import deepspeed
import torch
import zproof
from torch import nn


def make_engine(given):
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo instead of an extension that takes minutes to compile
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 61), nn.GELU(), nn.Linear(61, 7))
    zero = {"stage": given.stage, "contiguous_gradients": not given.not_contiguous}
    if given.offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    config = {"train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": given.accumulate,
              "gradient_clipping": 0.05, "zero_optimization": zero, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "bf16": {"enabled": given.dtype == "bf16"}}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    torch.manual_seed(1 + engine.global_rank)
    return engine


def train(engine, given, first_step):
    dtype = next(engine.module.parameters()).dtype
    with zproof.torch.record(engine.optimizer, engine, given.folder, first_step=first_step):
        for _ in range(3 * given.accumulate):
            for _ in range(given.by_hand):
                engine.backward(engine(torch.randn(16, 33).to(dtype)).square().mean() / given.by_hand)
            engine.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--stage", type=int, choices=range(4), default=1)
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--accumulate", type=int, default=1, help="gradient_accumulation_steps")
    parser.add_argument("--by-hand", type=int, default=1, help="backward passes before each call of step()")
    parser.add_argument("--not-contiguous", action="store_true", help="contiguous_gradients is false")
    parser.add_argument("--offload", action="store_true", help="the optimizer is offloaded")
    parser.add_argument("--resume", action="store_true", help="saves a checkpoint, loads it, and trains on")
    given = parser.parse_args()
    engine = make_engine(given)
    train(engine, given, 1)
    if given.resume:
        engine.save_checkpoint(f"{given.folder}/checkpoint")
        torch.distributed.barrier()
        engine = make_engine(given)
        engine.load_checkpoint(f"{given.folder}/checkpoint")
        train(engine, given, 4)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
