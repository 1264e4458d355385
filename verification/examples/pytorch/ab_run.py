#!/usr/bin/env python3
"""Trains a small model under two settings each and compares the trainings: zproof.ab.

ab_run.py [NAME ...]    all pairs below or these, over gloo on this machine; a table of their verdicts

The pairs of SETTINGS are one training and have to be equal or within the bounds. In those of MISTAKES the second training
has a mistake: one of the classes below, or of record_run.py.
"""

import argparse
import os

import torch
import zproof
from record_run import MAX_NORM, WRONG, Resumed, Training
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

ROWS, STEPS = 24, 4


class Run(Training):
    """The rows of a step are divided among `parts`, the micro-batches of all ranks."""

    def __init__(self, folder, framework="ddp", parts=4, seed=0, scale=None, compiled=False, recomputed=False, ddp=None,
                 fsdp=None, clip=None, set_to_none=True, kind=torch.optim.AdamW, **optimizer):
        self.parts, self.seed, self.scale, self.compiled, self.recomputed = parts, seed, scale, compiled, recomputed
        self.ddp, self.fsdp, self.clip_words = ddp or {}, fsdp or {}, clip or {}
        self.set_to_none, self.kind, self.words = set_to_none, kind, {"lr": 1e-2, "weight_decay": 0.1, **optimizer}
        super().__init__(folder, framework)

    def wrap(self, model, framework):
        torch.manual_seed(self.seed)
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -0.3, 0.3)
        if self.recomputed:
            from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
            apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.GELU))
        if framework == "fsdp":
            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (self.world,))
            words = dict(self.fsdp)
            for module in (model,) if words.pop("one_group", False) else (model[0], model):
                torch.distributed.fsdp.fully_shard(module, mesh=mesh, **words)
        else:
            model = nn.parallel.DistributedDataParallel(model, **self.ddp)
        return torch.compile(model) if self.compiled else model

    def make_optimizer(self, framework):
        groups = [{"params": [p for p in self.model.parameters() if p.ndim > 1]},
                  {"params": [p for p in self.model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
        if framework == "zero":
            return ZeroRedundancyOptimizer(groups, self.kind, **self.words)
        return self.kind(groups, **self.words)

    def step(self, step):
        self.optimizer.zero_grad(self.set_to_none)
        rows = torch.randn(ROWS, 33, generator=torch.Generator().manual_seed(self.seed_of_rows(step)))
        for micro, part in enumerate(rows.chunk(self.parts)[self.rank::self.world]):
            self.backward(self.scaler.scale(self.loss(part)), step, micro)
        self.scaler.unscale_(self.optimizer)
        self.clip(step)
        self.update(step)

    def seed_of_rows(self, step):
        return 10 + step

    def loss(self, rows):
        return self.model(rows).square().mean() * self.world / self.parts

    def clip(self, step):
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM, **self.clip_words)

    def save(self, path):
        if self.rank == 0:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class RateTimesRanks(Run):
    """The learning rate is multiplied by the number of ranks."""

    def make_optimizer(self, framework):
        self.words["lr"] *= self.world
        return super().make_optimizer(framework)


class EpsOnOneRank(Run):
    """The last rank has another eps."""

    def make_optimizer(self, framework):
        if self.rank == self.world - 1:
            self.words["eps"] = 1e-6
        return super().make_optimizer(framework)


class DecayOnBiases(Run):
    """All parameters decay."""

    def make_optimizer(self, framework):
        return self.kind(self.model.parameters(), **self.words)


class LossNotDivided(Run):
    """The losses of the micro-batches are added, without a division by their number."""

    def loss(self, rows):
        return super().loss(rows) * self.parts / self.world


class RateRestarted(Run):
    """A schedule begins again on resume."""

    def load(self, path):
        super().load(path)
        for group in self.optimizer.param_groups:
            group["lr"] *= 10


class RowsRepeated(Run):
    """The data begin again on resume."""
    resumed = False

    def load(self, path):
        super().load(path)
        self.resumed = True

    def seed_of_rows(self, step):
        return super().seed_of_rows(step - 2 if self.resumed else step)


class OtherModel(Run):
    """The model begins with other parameters."""

    def __init__(self, folder, **settings):
        super().__init__(folder, seed=7, **settings)


class GradientsIn16Bits(Run):
    """The gradients are rounded to bf16 before the update."""

    def clip(self, step):
        super().clip(step)
        for grad in self.gradients():
            grad.copy_(grad.bfloat16())


class DividedTwice(Run):
    """A communication hook divides by the number of ranks, after the mean."""

    def wrap(self, model, framework):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
        model = super().wrap(model, framework)
        model.register_comm_hook(None, lambda state, bucket: allreduce_hook(state, bucket).then(
            lambda done: done.value() / self.world))
        return model


def rank_main(rank, folder, world, part, cls, settings):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous{part}", rank=rank, world_size=world)
    if issubclass(cls, Run):
        run = cls(folder, **settings)
        if part == 2:
            run.load(f"{folder}/checkpoint")
        Training.run(run, *{0: (1, STEPS), 1: (1, 2), 2: (3, STEPS - 2)}[part])
        if part == 1:
            run.save(f"{folder}/checkpoint")
    else:
        cls(folder, settings.get("framework", cls.framework)).run()
    torch.distributed.destroy_process_group()


def train(folder, world=2, resume=None, cls=Run, **settings):
    """`resume`: the number of ranks after step 2."""
    for part, ranks in ((0, world),) if resume is None else ((1, world), (2, resume)):
        torch.multiprocessing.start_processes(rank_main, (folder, ranks, part, cls, settings), ranks, start_method="fork")


def without(cls):
    """The training without the mistake of a class of record_run.py."""
    base = Resumed if issubclass(cls, Resumed) else Training
    return type("Correct", (base,), {"framework": cls.framework, "scale": cls.scale})


def fsdp(**words):
    return {"framework": "fsdp", "fsdp": words}


# name: a, b, the bound of gradients that other kernels compute
SETTINGS = {
    "1 rank, 2 ranks": ({"world": 1}, {}, None),
    "2 ranks, 4 ranks": ({}, {"world": 4}, None),
    "2 ranks, 3 ranks": ({"parts": 12}, {"parts": 12, "world": 3}, 1e-5),
    "DDP, FSDP2": ({}, fsdp(), None),
    "DDP, ZeroRedundancyOptimizer": ({}, {"framework": "zero"}, None),
    "FSDP2 on 2 ranks, on 3 ranks": ({**fsdp(), "parts": 12}, {**fsdp(), "parts": 12, "world": 3}, 1e-5),
    "FSDP2, kept after the forward pass": (fsdp(), fsdp(reshard_after_forward=False), None),
    "FSDP2, one group": (fsdp(), fsdp(one_group=True), None),
    "FSDP2, offloaded": (fsdp(), fsdp(offload_policy=torch.distributed.fsdp.CPUOffloadPolicy(pin_memory=False)), None),
    "DDP, small buckets": ({}, {"ddp": {"bucket_cap_mb": 0.001, "gradient_as_bucket_view": True}}, None),
    "4 micro-batches, 1": ({"parts": 8}, {"parts": 2}, 1e-5),
    "one run, resumed": ({}, {"resume": 2}, None),
    "2 ranks, resumed on 1": ({}, {"resume": 1}, None),
    "foreach, for-loop": ({"foreach": True}, {"foreach": False}, None),
    "for-loop, fused": ({"foreach": False}, {"fused": True}, None),
    "SGD, fused": ({"kind": torch.optim.SGD, "momentum": 0.9}, {"kind": torch.optim.SGD, "momentum": 0.9, "fused": True}, None),
    "eager, compiled": ({}, {"compiled": True}, 1e-5),
    "kept, recomputed activations": ({}, {"recomputed": True}, None),
    "no loss scale, GradScaler": ({}, {"scale": 1024.0}, None),
    "gradients None, zeros": ({}, {"set_to_none": False}, None),
    "clip by foreach, by a loop": ({"clip": {"foreach": True}}, {"clip": {"foreach": False}}, None),
}

MISTAKES = {
    "divided-twice": ({"world": 1, "parts": 2}, {"cls": DividedTwice, "parts": 2}),
    "rate-times-ranks": ({"world": 1}, {"cls": RateTimesRanks}),
    "eps-on-one-rank": ({}, {"cls": EpsOnOneRank}),
    "decay-on-biases": ({}, {"cls": DecayOnBiases}),
    "loss-not-divided": ({}, {"cls": LossNotDivided}),
    "rate-restarted": ({}, {"cls": RateRestarted, "resume": 2}),
    "rows-repeated": ({}, {"cls": RowsRepeated, "resume": 2}),
    "other-model": ({}, {"cls": OtherModel}),
    "gradients-in-16-bits": ({}, {"cls": GradientsIn16Bits}),
    **{name: ({"cls": without(cls)}, {"cls": cls}) for name, cls in WRONG.items()},
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[*SETTINGS, *MISTAKES, []], metavar="NAME")
    chosen = parser.parse_args().names or [*SETTINGS, *MISTAKES]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for name in chosen:
        a, b, within = SETTINGS[name] if name in SETTINGS else (*MISTAKES[name], None)
        verdict = zproof.ab(train, a, b, gradients_within=within, show=len(chosen) == 1)
        first = verdict.first
        place = f"step {first['divergence']['step']}, {first['group']}: {first['divergence']['hint']}" if first else ""
        print(f"{name:<36}{verdict.status:<11}{place}")


if __name__ == "__main__":
    main()
