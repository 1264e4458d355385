"""A small training for tests of zproof.torch.record, on one rank or as one of several over gloo; and its recordings.

recorded_run.py FOLDER RANK WORLD    trains every kind with a recorder and without, writes FOLDER/KIND and FOLDER/KIND.json
"""

import json
import pathlib
import sys

import numpy as np

STEPS, MICRO, LIMIT = 4, 2, 40
LR, MAX_NORM, DECAY = 1e-2, 0.1, 0.1
KINDS = {1: ["plain", "plain-fused", "plain-sgd", "fsdp"],
         2: ["ddp", "ddp-scaler", "ddp-scaler-fused", "zero", "fsdp", "fsdp-bf16", "fsdp-bf16-reduce", "fsdp-offload",
             "fsdp-kept", "fsdp-hybrid"],
         3: ["ddp", "zero", "fsdp", "fsdp-columns", "fsdp-accumulated"],
         4: ["fsdp-hybrid", "fsdp-partly-kept"]}


def read(path):
    """Tensors in fp32, with the names of their formats, and the metadata."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    metadata = json.loads(header.pop("__metadata__")["zeroproof_recording"])
    tensors, formats = {}, {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        formats[name] = entry["dtype"]
        assert len(entry["shape"]) == 1, name
        if entry["dtype"] == "BF16":
            tensors[name] = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            tensors[name] = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
    return tensors, formats, metadata


def model():
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(6, 11)
            self.second = torch.nn.Linear(11, 1)  # empty shards
            self.unused = torch.nn.Parameter(torch.ones(3))
            self.frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)

        def forward(self, x):
            return self.second(torch.tanh(self.first(x))) * self.frozen[0]

    torch.manual_seed(3)
    return Network()


def batch(rank, step, micro):
    import torch

    return torch.randn(6, 6, generator=torch.Generator().manual_seed(100 * rank + 10 * step + micro))


def loss_of(network, rank, step, micro):
    return (network(batch(rank, step, micro)) - 1).square().mean() / MICRO


def train(kind, rank, world, recorder_of):
    """Returns the parameters at the end."""
    import torch
    from torch import nn

    network = model()
    mesh = None
    if kind.startswith("fsdp"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
        from torch.distributed.tensor import Shard
        mesh = init_device_mesh("cpu", (2, world // 2) if kind == "fsdp-hybrid" else (world,),
                                mesh_dim_names=("copies", "shards") if kind == "fsdp-hybrid" else None)
        words = {"mesh": mesh}
        if kind.startswith("fsdp-bf16"):
            words["mp_policy"] = MixedPrecisionPolicy(
                torch.bfloat16, torch.bfloat16 if kind == "fsdp-bf16-reduce" else torch.float32)
        if kind == "fsdp-offload":
            words["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
        if kind.endswith("kept"):
            words["reshard_after_forward"] = 2 if kind == "fsdp-partly-kept" else False
        if kind == "fsdp-columns":
            words["shard_placement_fn"] = lambda parameter: Shard(1) if parameter.shape == (11, 6) else None
        for module in (network.first, network):
            fully_shard(module, **words)
    elif kind.startswith(("ddp", "zero")):
        network = nn.parallel.DistributedDataParallel(network, find_unused_parameters=True)
    trained = [one for one in network.parameters() if one.requires_grad]
    groups = [{"params": [one for one in trained if one.ndim > 1]},
              {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0}]
    words = {"lr": LR, "weight_decay": DECAY, "fused": True if kind.endswith("fused") else None}
    if kind == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=LR, weight_decay=DECAY)
    elif kind == "plain-sgd":
        optimizer = torch.optim.SGD(groups, momentum=0.9, **words)
    else:
        optimizer = torch.optim.AdamW(groups, **words)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled="scaler" in kind)
    with recorder_of(optimizer, network):
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            for micro in range(MICRO):
                if kind == "fsdp-accumulated":
                    network.set_requires_gradient_sync(micro == MICRO - 1)
                loss = loss_of(network, rank, step, micro)
                if "scaler" in kind and step == 2:
                    loss = loss * float("inf")
                scaler.scale(loss).backward()
            if kind != "ddp-scaler-fused":
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
            scaler.step(optimizer)
            scaler.update()
    return [(one.to_local() if mesh else one).detach().reshape(-1).tolist() for one in network.parameters()]


def main(folder, rank, world):
    import contextlib

    import torch

    import zproof

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    for kind in KINDS[world]:
        # sampled, except where the numbers of all elements are compared
        limit = {"limit": LIMIT} if kind == "ddp" else {}
        recorded = train(kind, rank, world, lambda optimizer, network, kind=kind, limit=limit: zproof.torch.record(
            optimizer, network, f"{folder}/{kind}", **limit))
        without = train(kind, rank, world, lambda *_: contextlib.nullcontext())
        pathlib.Path(f"{folder}/{kind}.rank{rank}.json").write_text(json.dumps(recorded == without), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
