#!/usr/bin/env python3
"""Trains a small model on several ranks over gloo and records every step for zeroproof judge-run.

torchrun --nproc-per-node 2 record_run.py FOLDER [--framework fsdp] [--resume] [--wrong NAME]
zeroproof judge-run FOLDER

--framework: ddp, fsdp (fully_shard) or zero (DDP and ZeroRedundancyOptimizer). --resume: continues from a checkpoint after
step 2. --wrong: a mistake of the program, one of the classes at the end; each of them replaces a part of the training
above it. --wrong all makes all of them, each in a folder of its name.
"""

import argparse

import torch
import zproof
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

MICRO_BATCHES, MAX_NORM = 3, 0.05


class Training:
    framework = "fsdp"
    optimizer_class = torch.optim.AdamW
    recorded = {}  # arguments of zproof.torch.record
    scale = None  # of a GradScaler

    def __init__(self, folder, framework):
        self.folder, self.framework = folder, framework
        self.rank, self.world = torch.distributed.get_rank(), torch.distributed.get_world_size()
        torch.manual_seed(0)
        self.model = self.wrap(nn.Sequential(nn.Linear(33, 61), nn.GELU(), nn.Linear(61, 7)), framework)
        self.optimizer = self.make_optimizer(framework)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=self.scale or 1.0, enabled=self.scale is not None)
        torch.manual_seed(1 + self.rank)

    def wrap(self, model, framework):
        if framework != "fsdp":
            return nn.parallel.DistributedDataParallel(model)
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (self.world,))
        for module in (model[0], model):
            torch.distributed.fsdp.fully_shard(module, mesh=mesh)
        return model

    def make_optimizer(self, framework):
        groups = [{"params": [p for p in self.model.parameters() if p.ndim > 1]},
                  {"params": [p for p in self.model.parameters() if p.ndim < 2], "weight_decay": 0.0, "lr": 3e-3}]
        if framework == "zero":
            return ZeroRedundancyOptimizer(groups, self.optimizer_class, lr=1e-2, weight_decay=0.1)
        return self.optimizer_class(groups, lr=1e-2, weight_decay=0.1)

    def run(self, first_step=1, steps=4):
        with zproof.torch.record(self.optimizer, self.model, self.folder, first_step=first_step, **self.recorded):
            for step in range(first_step, first_step + steps):
                self.step(step)

    def step(self, step):
        self.optimizer.zero_grad()
        for micro in range(MICRO_BATCHES):
            loss = self.model(torch.randn(16, 33)).square().mean() / MICRO_BATCHES
            self.backward(self.scaler.scale(loss), step, micro)
        self.scaler.unscale_(self.optimizer)
        self.clip(step)
        self.update(step)

    def backward(self, loss, step, micro):
        loss.backward()

    def clip(self, step):
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)

    def update(self, step):
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def gradients(self):
        """Local parts."""
        grads = [p.grad for p in self.model.parameters()]
        return [grad.to_local() if hasattr(grad, "to_local") else grad for grad in grads]


class LocalNorm(Training):
    """Every rank clips by the norm of its own shards."""
    recorded = {"max_norm": MAX_NORM}

    def clip(self, step):
        norm = torch.stack([grad.norm() for grad in self.gradients()]).norm()
        for grad in self.gradients():
            grad.mul_(min(1.0, MAX_NORM / (norm.item() + 1e-6)))


class ScaledTwice(Training):
    """The loss is a mean over the micro-batches, and the gradients are divided by their number."""

    def clip(self, step):
        for grad in self.gradients():
            grad.div_(MICRO_BATCHES)
        super().clip(step)


class MeanForgotten(Training):
    """The gradients are added over the ranks, not averaged."""

    def wrap(self, model, framework):
        model = super().wrap(model, framework)
        for module in (model[0], model):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo
        return model


class MicroBatchLost(Training):
    """Gradients of the first micro-batch are discarded."""

    def backward(self, loss, step, micro):
        if micro == 1:
            for parameter in self.model.parameters():
                parameter.grad = None
        super().backward(loss, step, micro)


class NotReduced(Training):
    """The last micro-batch is under no_sync."""
    framework = "ddp"

    def backward(self, loss, step, micro):
        loss.backward()
        if micro == MICRO_BATCHES - 1 and step == 2:
            with self.model.no_sync():
                self.model(torch.randn(16, 33)).square().mean().backward()


class SkippedOnOneRank(Training):
    """The last rank decides about an overflow by itself, and skips step 2."""
    framework, scale = "ddp", 1024.0

    def clip(self, step):
        super().clip(step)
        if self.rank == self.world - 1 and step == 2:
            state = self.scaler._per_optimizer_states[id(self.optimizer)]
            for found in state["found_inf_per_device"].values():
                found.fill_(1.0)


class OverflowApplied(Training):
    """Gradients are infinite in step 2, and the step is taken."""
    framework, scale = "ddp", 1024.0

    def backward(self, loss, step, micro):
        super().backward(loss * float("inf") if step == 2 else loss, step, micro)

    def clip(self, step):
        super().clip(step)
        for found in self.scaler._per_optimizer_states[id(self.optimizer)]["found_inf_per_device"].values():
            found.zero_()


class ScaleKept(Training):
    """The program scales its loss and forgets to divide the gradients."""
    recorded = {"loss_scale": 8.0}

    def backward(self, loss, step, micro):
        super().backward(loss * 8, step, micro)


class ClippedTwice(Training):
    """The coefficient is applied by clip_grad_norm_ and again by the program."""

    def clip(self, step):
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM).full_tensor().item()
        for grad in self.gradients():
            grad.mul_(min(1.0, MAX_NORM / (norm + 1e-6)))


class DecayLast(Training):
    """The weights decay after the update."""

    class optimizer_class(torch.optim.AdamW):
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


class RateOfFirstGroup(Training):
    """All param groups are updated with the learning rate of the first."""

    class optimizer_class(torch.optim.AdamW):
        def step(self):
            rates = [group["lr"] for group in self.param_groups]
            for group in self.param_groups:
                group["lr"] = rates[0]
            super().step()
            for group, rate in zip(self.param_groups, rates):
                group["lr"] = rate


class StaleShard(Training):
    """The last rank keeps the old values of a parameter that another rank has updated."""
    framework = "zero"

    def update(self, step):
        stale = next(self.model.parameters())
        before = stale.detach().clone()
        super().update(step)
        if self.rank == self.world - 1 and step == 3:
            with torch.no_grad():
                stale.copy_(before)


class Resumed(Training):
    """Continues after step 2 from a checkpoint; correct."""

    def run(self):
        super().run(steps=2)
        state = self.checkpoint()
        self.optimizer = self.make_optimizer(self.framework)
        self.load(state)
        super().run(first_step=3, steps=2)

    def checkpoint(self):
        if self.framework != "zero":
            return self.optimizer.state_dict()
        for rank in range(self.world):  # one rank at a time can have the state of all
            self.optimizer.consolidate_state_dict(to=rank)
            if rank == self.rank:
                state = self.optimizer.state_dict()
        return state

    def load(self, state):
        self.optimizer.load_state_dict(state)


class MomentDropped(Resumed):
    """exp_avg is not in the checkpoint."""

    def load(self, state):
        super().load(state)
        for own in self.optimizer.state.values():
            own["exp_avg"].zero_()


class CountDropped(Resumed):
    """The number of the step is not in the checkpoint: the bias correction begins again."""

    def load(self, state):
        super().load(state)
        for own in self.optimizer.state.values():
            own["step"].zero_()


WRONG = {"".join("-" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("-"): cls for cls in (
    LocalNorm, ScaledTwice, MeanForgotten, MicroBatchLost, NotReduced, SkippedOnOneRank, OverflowApplied, ScaleKept,
    ClippedTwice, DecayLast, RateOfFirstGroup, StaleShard, MomentDropped, CountDropped)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--framework", choices=["ddp", "fsdp", "zero"])
    parser.add_argument("--wrong", choices=[*WRONG, "all"])
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    torch.distributed.init_process_group("gloo")
    chosen = WRONG if given.wrong == "all" else {given.wrong: WRONG.get(given.wrong, Resumed if given.resume else Training)}
    for name, cls in chosen.items():
        cls(f"{given.folder}/{name}" if given.wrong == "all" else given.folder, given.framework or cls.framework).run()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
