#!/usr/bin/env python3
"""Trains a small model with DeepSpeed's ZeRO on several ranks over gloo and records every step for zeroproof judge-run.

DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 record_deepspeed.py FOLDER [--stage 1] [--dtype bf16] [--offload]
zeroproof judge-run FOLDER
"""

import argparse

import deepspeed
import torch
import zproof
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--stage", type=int, choices=[0, 1, 2, 3], default=1)
    parser.add_argument("--dtype", choices=["bf16", "fp16", "fp32"], default="bf16")
    parser.add_argument("--offload", action="store_true", help="of the optimizer, to the host")
    given = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 61), nn.GELU(), nn.Linear(61, 7))
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1]},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.1), config={
        "train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 2, "gradient_clipping": 0.05,
        "zero_optimization": {"stage": given.stage, **({"offload_optimizer": {"device": "cpu"}} if given.offload else {})},
        "bf16": {"enabled": given.dtype == "bf16"}, "fp16": {"enabled": given.dtype == "fp16"},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False})
    torch.manual_seed(1 + engine.global_rank)
    with zproof.torch.record(engine.optimizer, engine, given.folder):
        for _ in range(2 * 4):
            x = torch.randn(16, 33).to(next(model.parameters()).dtype)
            engine.backward(engine(x).square().mean())
            engine.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
