#!/usr/bin/env python3
"""Takes three steps of one package's Muon on the ranks of torchrun and writes the matrices; judge_muon.py starts it.

torchrun --nproc-per-node 2 run_muon.py FORM FILE [--shapes even|odd]

Every rank has the same gradients, so that their mean is each rank's own. Rank 0 writes the whole matrices after the
steps, in fp32.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

SHAPES = {"even": [(12, 12), (20, 8), (8, 20), (6, 14)], "odd": [(13, 12), (13, 12), (13, 12), (13, 12)]}
SETTINGS = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.95}


def drawn(shapes):
    draw = torch.Generator().manual_seed(1)
    masters = [torch.randn(shape, generator=draw) * 0.05 for shape in shapes]
    return masters, [[torch.randn(shape, generator=draw) * 1e-2 for shape in shapes] for _ in range(3)]


def whole(parameter):
    parameter = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
    return parameter.detach().clone()


def step_by_gradients(optimizer, parameters, gradients, place=lambda gradient: gradient):
    for step in gradients:
        for parameter, gradient in zip(parameters, step):
            parameter.grad = place(gradient.clone())
        optimizer.step()
    return [whole(parameter) for parameter in parameters]


def replicated(make):
    """An optimizer whose ranks have whole parameters."""
    def run(masters, gradients):
        parameters = [nn.Parameter(master.clone()) for master in masters]
        return step_by_gradients(make(parameters), parameters, gradients)
    return run


def sharded(make):
    """An optimizer of DTensors, rows split as FSDP2 splits them."""
    def run(masters, gradients):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("shard",))
        place = lambda value: distribute_tensor(value.clone(), mesh, [Shard(0)])
        parameters = [nn.Parameter(place(master)) for master in masters]
        return step_by_gradients(make(parameters), parameters, gradients, place)
    return run


def torch_muon(parameters):
    return torch.optim.Muon(parameters, **SETTINGS)


def keller_jordan(parameters):
    from muon import Muon
    return Muon(parameters, **SETTINGS)


def keller_jordan_single(parameters):
    from muon import SingleDeviceMuon
    return SingleDeviceMuon(parameters, **SETTINGS)


def muon_fsdp2(parameters):
    from muon_fsdp2 import Muon
    return Muon([{"params": parameters, "use_muon": True, **SETTINGS}])


def deepspeed_single(method):
    def make(parameters):
        from deepspeed.runtime.zero.muon.original_muon import SingleDeviceMuon
        return SingleDeviceMuon(parameters, ns_method=method, **SETTINGS)
    return make


def emerging(parameters):
    from emerging_optimizers.orthogonalized_optimizers import Muon
    return Muon(parameters, **SETTINGS)


def emerging_tensor_parallel(mode):
    """newton_schulz_tp of rows: each rank has its own, and gives them to the same update as Muon's."""
    def run(masters, gradients):
        from emerging_optimizers.orthogonalized_optimizers import Muon, muon_utils
        from emerging_optimizers.orthogonalized_optimizers.muon import get_muon_scale_factor
        ranks, rank = dist.get_world_size(), dist.get_rank()
        mine = lambda values: [value.chunk(ranks)[rank].contiguous() for value in values]
        parameters = [nn.Parameter(master) for master in mine(masters)]
        optimizer = Muon(parameters, **SETTINGS)

        def orthogonalize(p, grad, **_):
            part = muon_utils.newton_schulz_tp(grad, 5, "quintic", dist.group.WORLD, partition_dim=0, tp_mode=mode)
            return part * get_muon_scale_factor(grad.size(0) * ranks, grad.size(1))
        optimizer.orthogonalize = orthogonalize
        rows = step_by_gradients(optimizer, parameters, [mine(step) for step in gradients])
        gathered = [[torch.empty_like(part) for _ in range(ranks)] for part in rows]
        for parts, part in zip(gathered, rows):
            dist.all_gather(parts, part)
        return [torch.cat(parts) for parts in gathered]
    return run


class Products(nn.Module):
    """A model whose gradient is the given one."""

    def __init__(self, masters):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(master.clone()) for master in masters])

    def forward(self, gradients):
        return sum((weight * gradient).sum() for weight, gradient in zip(self.weights, gradients))


def deepspeed(stage, method="standard", accumulate=1, clip=0.0, reduce_scatter=False):
    """DeepSpeed with the optimizer Muon of its configuration; clip None is its default, 1."""
    def run(masters, gradients):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed as library
        library.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo instead of an extension that takes minutes
        model = Products(masters)
        library.init_distributed("gloo")
        config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulate,
                  "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
                  "optimizer": {"type": "Muon", "params": {**SETTINGS, "ns_method": method}},
                  "zero_optimization": {"stage": stage, "reduce_scatter": reduce_scatter}}
        if clip is not None:
            config["gradient_clipping"] = clip
        engine, *_ = library.initialize(model=model, model_parameters=model.parameters(), config=config)
        for step in gradients:
            for _ in range(accumulate):
                engine.backward(engine(step))
                engine.step()
        if stage < 3:
            return [whole(weight) for weight in engine.module.weights]
        with library.zero.GatheredParameters(list(engine.module.weights)):
            return [whole(weight) for weight in engine.module.weights]
    return run


FORMS = {
    "torch": replicated(torch_muon), "torch-sharded": sharded(torch_muon),
    "keller-jordan": replicated(keller_jordan_single), "keller-jordan-ranks": replicated(keller_jordan),
    "muon-fsdp2": replicated(muon_fsdp2), "muon-fsdp2-sharded": sharded(muon_fsdp2),
    "emerging": replicated(emerging), "emerging-duplicated": emerging_tensor_parallel("duplicated"),
    "emerging-distributed": emerging_tensor_parallel("distributed"),
    "deepspeed": replicated(deepspeed_single("standard")), "deepspeed-gram": replicated(deepspeed_single("gram")),
    **{f"deepspeed-zero-{stage}": deepspeed(stage) for stage in range(4)},
    **{f"deepspeed-zero-{stage}-clip": deepspeed(stage, clip=None) for stage in range(4)},
    **{f"deepspeed-zero-{stage}-accumulate": deepspeed(stage, accumulate=2) for stage in range(4)},
    **{f"deepspeed-zero-{stage}-reduce-scatter": deepspeed(stage, reduce_scatter=True) for stage in range(1, 4)},
    "deepspeed-zero-2-gram": deepspeed(2, "gram"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("file")
    parser.add_argument("--shapes", choices=SHAPES, default="even")
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if not given.form.startswith("deepspeed-zero"):
        dist.init_process_group("gloo")
    matrices = FORMS[given.form](*drawn(SHAPES[given.shapes]))
    if dist.get_rank() == 0:
        torch.save([matrix.float() for matrix in matrices], given.file)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed has threads that do not always end


if __name__ == "__main__":
    main()
