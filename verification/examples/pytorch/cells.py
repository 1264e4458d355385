#!/usr/bin/env python3
"""Trains a small GPT in 30 ways on 1 to 4 ranks over gloo, records every step and judges it: none may be wrong.

OMP_NUM_THREADS=1 python3 cells.py [--world 2] [--keep FOLDER]

Each row is a framework, its format, the ranks and the limit of the clip; the verdict of zeroproof judge-run, the seconds of
training and judging, and the lines of a program that set the framework up and record. Cells of DeepSpeed are skipped where
it is not installed.
"""

import argparse
import contextlib
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import torch
import zproof
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

STEPS, MICRO, BATCH, LENGTH, VOCABULARY, WIDTH = 4, 2, 4, 16, 64, 32
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Cell(NamedTuple):
    world: int
    framework: str
    dtype: str
    clip: float | None


CELLS = [Cell(world, framework, dtype, clip) for world, rows in {
    1: ["plain fp32 -", "plain fp32 0.1", "plain bf16 0.1", "plain fp16 0.1", "FSDP2 fp32 0.1", "ZeRO-0 fp32 0.1",
        "ZeRO-3 bf16 0.1"],
    2: ["DDP fp32 -", "DDP fp32 0.1", "DDP fp16 0.1", "ZeroRedundancyOptimizer fp32 0.1", "FSDP2 fp32 -", "FSDP2 bf16 0.1",
        "ZeRO-0 fp16 0.1", "ZeRO-1 bf16 0.1", "ZeRO-2 fp16 0.1", "ZeRO-2-offload bf16 0.1", "ZeRO-3 bf16 -"],
    3: ["DDP bf16 0.1", "ZeroRedundancyOptimizer fp32 -", "FSDP2 fp32 0.1", "ZeRO-1 fp32 -", "ZeRO-2 bf16 0.1",
        "ZeRO-3 fp16 0.1"],
    4: ["DDP fp32 0.1", "HSDP fp32 0.1", "FSDP2 bf16 0.1", "ZeroRedundancyOptimizer fp32 0.1", "ZeRO-1-offload fp16 0.1",
        "ZeRO-3-offload fp32 0.1"]}.items()
    for row in rows for framework, dtype, limit in [row.split()] for clip in [None if limit == "-" else float(limit)]]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, 0.0, "gelu", batch_first=True,
                                                               norm_first=True) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(LENGTH))
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=x.dtype)
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return self.head(self.norm(x))


def groups_of(model):
    return [{"params": [p for p in model.parameters() if p.ndim > 1]},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]


def plain(model, cell):
    return model, torch.optim.AdamW(groups_of(model), lr=1e-2, weight_decay=0.1)


def ddp(model, cell):
    model = nn.parallel.DistributedDataParallel(model)
    return model, torch.optim.AdamW(groups_of(model), lr=1e-2, weight_decay=0.1)


def zero_redundancy(model, cell):
    model = nn.parallel.DistributedDataParallel(model)
    return model, ZeroRedundancyOptimizer(groups_of(model), torch.optim.AdamW, lr=1e-2, weight_decay=0.1)


def fsdp(model, cell):
    hybrid = cell.framework == "HSDP"
    mesh = init_device_mesh("cpu", (2, 2) if hybrid else (cell.world,), mesh_dim_names=("copies", "shards") if hybrid else None)
    policy = MixedPrecisionPolicy(FORMATS[cell.dtype], torch.float32)
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh, mp_policy=policy)
    return model, torch.optim.AdamW(groups_of(model), lr=1e-2, weight_decay=0.1)


def deepspeed(model, cell):
    from deepspeed import initialize
    dtype = {} if cell.dtype == "fp32" else {cell.dtype: {"enabled": True}}
    offload = {"offload_optimizer": {"device": "cpu"}} if "offload" in cell.framework else {}
    optimizer = torch.optim.AdamW(groups_of(model), lr=1e-2, weight_decay=0.1)
    engine, *_ = initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": MICRO, "gradient_clipping": cell.clip or 0.0,
        "zero_optimization": {"stage": int(cell.framework[5]), **offload}, **dtype, "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False})
    return engine, engine.optimizer


SETUPS = {"plain": plain, "DDP": ddp, "ZeroRedundancyOptimizer": zero_redundancy, "FSDP2": fsdp, "HSDP": fsdp, "ZeRO": deepspeed}


def setup_of(cell):
    return SETUPS[cell.framework.split("-")[0]]


def runs(cell):
    return setup_of(cell) is not deepspeed or importlib.util.find_spec("deepspeed") is not None


def lines_of(cell):
    """Of the setup, and two that record."""
    return len(inspect.getsource(setup_of(cell)).splitlines()) - 1 + 2


def train(cell, folder):
    torch.manual_seed(0)
    model, optimizer = setup_of(cell)(GPT(), cell)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=cell.dtype == "fp16" and setup_of(cell) is not deepspeed)
    autocast = torch.autocast("cpu", FORMATS[cell.dtype], enabled=cell.dtype != "fp32" and setup_of(cell) in (plain, ddp))
    torch.manual_seed(1 + torch.distributed.get_rank())
    with zproof.torch.record(optimizer, model, folder):
        for _ in range(STEPS):
            for _ in range(MICRO):
                ids = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
                with autocast:
                    logits = model(ids[:, :-1])
                loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
                if setup_of(cell) is deepspeed:
                    model.backward(loss)
                    model.step()
                else:
                    scaler.scale(loss / MICRO).backward()
            if setup_of(cell) is deepspeed:
                continue
            scaler.unscale_(optimizer)
            if cell.clip:
                nn.utils.clip_grad_norm_(model.parameters(), cell.clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def rank_main(folder, rank, world):
    """Trains all cells of a number of ranks, and writes their seconds."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/ranks{world}", rank=rank, world_size=world)
    if importlib.util.find_spec("deepspeed"):
        from deepspeed.accelerator import get_accelerator
        # DeepSpeed refuses fp16 on processors without instructions for it, on which PyTorch computes it by other ones.
        get_accelerator().is_fp16_supported = lambda: True
    for number, cell in enumerate(CELLS):
        if cell.world == world and runs(cell):
            began = time.perf_counter()
            train(cell, f"{folder}/{number}")
            pathlib.Path(f"{folder}/{number}.seconds{rank}").write_text(str(time.perf_counter() - began), encoding="utf-8")
    torch.distributed.destroy_process_group()


def judge(folder, number, cell):
    """"right", or what is not."""
    if not runs(cell):
        return "not run: DeepSpeed is not installed"
    if not pathlib.Path(f"{folder}/{number}").exists():
        return "not recorded"
    ran = subprocess.run([sys.executable, "-m", "zproof", "judge-run", f"{folder}/{number}"], capture_output=True, text=True)
    steps = len(list(pathlib.Path(f"{folder}/{number}").glob("step*.rank0.safetensors")))
    if ran.returncode == 1:
        return "WRONG\n" + ran.stdout
    return "right" if ran.returncode == 0 and steps == STEPS else f"{steps} steps, exit code {ran.returncode}\n" + ran.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, choices=[1, 2, 3, 4])
    parser.add_argument("--keep")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        rank_main(given.keep, int(given.rank), given.world)
        return
    with contextlib.nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).mkdir(exist_ok=True)
        print(f"{'framework':26} format  ranks  clip  verdict  seconds  lines")
        counts = {"right": 0, "not run": 0}
        chosen = [(number, cell) for number, cell in enumerate(CELLS) if given.world in (None, cell.world)]
        for world in sorted({cell.world for _, cell in chosen}):
            environment = {**os.environ, "DS_ACCELERATOR": "cpu", "MASTER_ADDR": "localhost", "MASTER_PORT": "29517"}
            command = [sys.executable, __file__, "--world", str(world), "--keep", folder, "--rank"]
            logs = [pathlib.Path(f"{folder}/ranks{world}.{rank}.log") for rank in range(world)]
            ranks = []
            for rank, log in enumerate(logs):
                with log.open("w") as said:  # not a pipe: DeepSpeed fills it
                    ranks.append(subprocess.Popen([*command, str(rank)], env=environment, stdout=said, stderr=subprocess.STDOUT))
            failed = [log for rank, log in zip(ranks, logs) if rank.wait() != 0]
            if failed:
                print(failed[0].read_text(encoding="utf-8"))
            for number, cell in chosen:
                if cell.world != world:
                    continue
                began = time.perf_counter()
                verdict = judge(folder, number, cell)
                seconds = pathlib.Path(f"{folder}/{number}.seconds0")
                took = time.perf_counter() - began + (float(seconds.read_text(encoding="utf-8")) if seconds.exists() else 0)
                counts[verdict.split(":")[0]] = counts.get(verdict.split(":")[0], 0) + 1
                clip = "-" if cell.clip is None else f"{cell.clip:g}"
                print(f"{cell.framework:26} {cell.dtype:6}  {cell.world:5}  {clip:>4}  {verdict:7}  {took:7.1f}  "
                      f"{lines_of(cell):5}", flush=True)
    print(f"{counts['right']} of {len(chosen)} right, {counts['not run']} not run")
    sys.exit(counts["right"] + counts["not run"] != len(chosen))


if __name__ == "__main__":
    main()
