#!/usr/bin/env python3
"""Records steps of Muon of public packages on the CPU, for zeroproof identify.

Every variant of a package starts from random matrices (square, tall, wide, odd) and takes three steps with random
gradients, from a seed. A safetensors file is written for each step that --keep names: gradient, master and momentum
before the step, master and momentum after it, each with its shape, and the settings. The variant `edge` has a matrix of
zeros, one of rank 1, one with a norm near the floors of 1e-7, two that are scaled by 1e-30 and 1e30, and a plain one.

Two dialects are recorded from a published formula, which is written here, because their code is no package:
Moonlight (examples/toy_train.py) and Dion's Muon (dion/muon.py). `torchtitan` calls the functions of
torchtitan.distributed.flex_shard.dist_muon, whose optimizer refuses a CPU; `muon-fsdp2` runs on a mesh of one rank,
because version 0.3.0 raises a NameError without one.

Needs PyTorch and, for each form, its package: pip install muon-optimizer emerging-optimizers deepspeed muon-fsdp2
torchtitan optax tinygrad. Exit codes: 0 everything was written, and named if --identify was given; 1 a step was not
named as expected; 2 bad usage; 3 a package is missing.
"""

import argparse
import importlib
import math
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from record_torch import write_step  # noqa: E402  (the file format of both recorders)

SHAPES = [(12, 12), (20, 8), (8, 20), (7, 13)]
SIMPLE = (3.4445, -4.7750, 2.0315)
QUINTIC = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
           (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)]

# form: (the dialect's name, variants: name -> settings besides lr, weight_decay and momentum)
FORMS = {
    "torch": ("torch-muon", {
        "default": {}, "edge": {}, "plain": {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0},
        "unclamped": {"adjust_lr_fn": "spectral_unclamped", "momentum": 0.9},
        "short": {"ns_steps": 3, "nesterov": False}}),
    "keller-jordan": ("keller-jordan-muon", {"default": {}, "decay-0": {"weight_decay": 0.0}, "edge": {}}),
    "emerging": ("emerging-muon", {
        "default": {}, "nesterov": {"nesterov": True, "coefficient_type": "simple", "scale_mode": "shape_scaling"},
        "polar": {"coefficient_type": "polar_express", "scale_mode": "unit_rms_norm", "num_ns_steps": 8},
        "cans": {"coefficient_type": "cans"}, "aol": {"coefficient_type": "aol"},
        "deepseekv4": {"coefficient_type": "deepseekv4", "num_ns_steps": 10, "extra_scale_factor": 0.2},
        "fp32": {"fp32_matmul_prec": "highest", "nesterov": True}, "edge": {}}),
    "deepspeed": ("deepspeed-muon", {"default": {"ns_method": "standard"}}),
    "deepspeed-gram": ("deepspeed-muon-gram", {"default": {"ns_method": "gram"}, "edge": {"ns_method": "gram"}}),
    "moonlight": ("moonlight-muon", {"default": {}, "plain": {"nesterov": False}}),
    "dion": ("dion-muon", {"default": {}, "nesterov": {"nesterov": True, "rms": True}}),
    "muon-fsdp2": ("muon-fsdp2", {"default": {}, "plain": {"nesterov": False, "rms_scale": False}}),
    "torchtitan": ("torch-muon", {"default": {}}),
    "optax": ("optax-muon", {"default": {}, "plain": {"nesterov": False, "weight_decay": 0.0},
                             "dion": {"ns_coeffs": "dion", "consistent_rms": 0.2}, "edge": {}}),
    "tinygrad": ("tinygrad-muon", {"default": {}, "plain": {"nesterov": False, "weight_decay": 0.0}, "edge": {}}),
}
PACKAGES = {"keller-jordan": "muon-optimizer", "emerging": "emerging-optimizers", "deepspeed-gram": "deepspeed"}


def program(torch, form):
    if form in ("moonlight", "dion"):
        return f"the published formula, PyTorch {torch.__version__}"
    if form == "torch":
        return f"PyTorch {torch.__version__}"
    package = PACKAGES.get(form, form)
    return f"{package} {version(package)}" + ("" if form in ("optax", "tinygrad") else f", PyTorch {torch.__version__}")


def parameters_and_gradients(torch, seed, edge):
    """Masters, and the gradients of three steps."""
    draw = torch.Generator().manual_seed(seed)
    shapes = SHAPES + [(6, 5), (9, 11)] if edge else SHAPES
    masters = [torch.randn(shape, generator=draw) * 0.05 for shape in shapes]
    gradients = [[torch.randn(shape, generator=draw) * 1e-2 for shape in shapes] for _ in range(3)]
    if edge:
        for step in gradients:
            step[0].zero_()
            step[1] = step[1][:, :1] @ step[1][:1, :] * 100
            step[2] *= 1e-5
            step[3] *= 1e32
            step[4] *= 1e-28
    return masters, gradients


class TorchForm:
    """A package with an optimizer of PyTorch; the name of the momentum in its state is `key`."""

    def __init__(self, torch, make, masters, key="momentum_buffer"):
        self.torch, self.key = torch, key
        self.parameters = [torch.nn.Parameter(master.clone()) for master in masters]
        self.optimizer = make(self.parameters)

    def momentum(self, parameter):
        value = self.optimizer.state.get(parameter, {}).get(self.key)
        return self.torch.zeros_like(parameter) if value is None else value.detach().clone()

    def state(self):
        return [p.detach().clone() for p in self.parameters], [self.momentum(p) for p in self.parameters]

    def step(self, gradients):
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient.clone()
        self.optimizer.step()


class MeshForm(TorchForm):
    """The same on a mesh of one rank."""

    def __init__(self, torch, make, masters):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        if not torch.distributed.is_initialized():
            store = torch.distributed.FileStore(tempfile.mkstemp()[1], 1)
            torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        mesh = init_device_mesh("cpu", (1,))
        self.torch, self.key = torch, "momentum_buffer"
        self.shard = lambda x: distribute_tensor(x.clone(), mesh, [Shard(0)])
        self.parameters = [torch.nn.Parameter(self.shard(master)) for master in masters]
        self.optimizer = make(self.parameters)

    def state(self):
        return tuple([value.to_local().detach().clone() for value in values]
                     for values in (self.parameters, [self.momentum(p) for p in self.parameters]))

    def step(self, gradients):
        super().step([self.shard(gradient) for gradient in gradients])


class FormulaForm:
    """An update that is a function of one matrix: update(master, momentum, gradient) changes the first two."""

    def __init__(self, torch, update, masters):
        self.torch, self.update = torch, update
        self.masters = [master.clone() for master in masters]
        self.momenta = [torch.zeros_like(master) for master in masters]

    def state(self):
        return [m.clone() for m in self.masters], [m.clone() for m in self.momenta]

    def step(self, gradients):
        for master, momentum, gradient in zip(self.masters, self.momenta, gradients):
            self.update(master, momentum, gradient.clone())


def newton_schulz(torch, matrix, polynomials, eps, factor_first):
    """In bf16, rounded before the norm; c * A is a product of its own, or c * (A A)."""
    x = matrix.to(torch.bfloat16)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + eps)
    for a, b, c in polynomials:
        gram = x @ x.T
        square = (c * gram) @ gram if factor_first else c * (gram @ gram)
        x = a * x + (b * gram + square) @ x
    return x.T if tall else x


def moonlight(torch, lr, weight_decay, momentum, nesterov=True):
    """u of the momentum mu m + g; 0.2 sqrt(max(r, c)); decay by a factor first."""
    def update(master, buffer, gradient):
        buffer.mul_(momentum).add_(gradient)
        direction = newton_schulz(torch, gradient.add(buffer, alpha=momentum) if nesterov else buffer, [SIMPLE] * 5, 1e-7, True)
        master.mul_(1 - lr * weight_decay)
        master.add_(direction, alpha=-lr * 0.2 * math.sqrt(max(master.shape)))
    return update


def dion(torch, lr, weight_decay, momentum, nesterov=False, rms=False):
    """The same momentum, rounded to bf16 before it travels; sqrt(r / c), or 0.2 sqrt(max(r, c))."""
    def update(master, buffer, gradient):
        buffer.mul_(momentum).add_(gradient)
        direction = newton_schulz(torch, buffer * momentum + gradient if nesterov else buffer, QUINTIC, 1e-8, False)
        rows, columns = master.shape
        master.mul_(1 - lr * weight_decay)
        master.sub_(direction.float() * (lr * (0.2 * math.sqrt(max(rows, columns)) if rms else math.sqrt(rows / columns))))
    return update


def torchtitan(torch, lr, weight_decay, momentum):
    dist_muon = importlib.import_module("torchtitan.distributed.flex_shard.dist_muon")

    def update(master, buffer, gradient):
        prepared = torch.empty_like(gradient)
        dist_muon._prepare_muon_input(gradient, buffer, momentum=momentum, nesterov=True, out=prepared)
        dist_muon._compute_muon_direction(prepared, ns_coefficients=SIMPLE, ns_steps=5, eps=1e-7, out=prepared)
        dist_muon._apply_muon_update(master, prepared, lr=lr, weight_decay=weight_decay, adjust_lr_fn=None,
                                     compute_matrix_shape=master.shape)
    return update


class OptaxForm:
    def __init__(self, torch, masters, lr, weight_decay, momentum, **more):
        import jax
        import numpy
        import optax
        from optax import contrib
        self.torch, self.numpy, self.optax = torch, numpy, optax
        self.parameters = [jax.numpy.asarray(master.numpy()) for master in masters]
        self.rule = contrib.muon(learning_rate=lr, weight_decay=weight_decay, beta=momentum, **more)
        self.kept = self.rule.init(self.parameters)

    def as_torch(self, values):
        return [self.torch.from_numpy(self.numpy.array(value)) for value in values]

    def state(self):
        return self.as_torch(self.parameters), self.as_torch(self.kept.inner_states["muon"].inner_state[0].mu)

    def step(self, gradients):
        grads = [gradient.numpy() for gradient in gradients]
        updates, self.kept = self.rule.update(grads, self.kept, self.parameters)
        self.parameters = self.optax.apply_updates(self.parameters, updates)


class TinygradForm:
    def __init__(self, torch, masters, lr, weight_decay, momentum, **more):
        os.environ["TRAINING"] = "1"
        from tinygrad import Tensor
        from tinygrad.nn.optim import Muon
        self.torch, self.tensor = torch, Tensor
        self.parameters = [Tensor(master.numpy()).realize() for master in masters]
        self.optimizer = Muon(self.parameters, lr=lr, weight_decay=weight_decay, momentum=momentum, **more)

    def state(self):
        as_torch = lambda values: [self.torch.from_numpy(value.numpy().copy()) for value in values]
        return as_torch(self.parameters), as_torch(self.optimizer.b)

    def step(self, gradients):
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = self.tensor(gradient.numpy()).realize()
        self.optimizer.step()


def make(torch, form, settings, masters):
    more = dict(settings)
    lr, decay, momentum = more.pop("lr"), more.pop("weight_decay"), more.pop("momentum")
    common = {"lr": lr, "weight_decay": decay, "momentum": momentum}
    if form == "torch":
        return TorchForm(torch, lambda p: torch.optim.Muon(p, **common, **more), masters)
    if form == "keller-jordan":
        from muon import SingleDeviceMuon
        return TorchForm(torch, lambda p: SingleDeviceMuon(p, **common), masters)
    if form == "emerging":
        from emerging_optimizers.orthogonalized_optimizers import Muon
        return TorchForm(torch, lambda p: Muon(p, **common, **more), masters)
    if form.startswith("deepspeed"):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        from deepspeed.runtime.zero.muon.original_muon import SingleDeviceMuon
        return TorchForm(torch, lambda p: SingleDeviceMuon(p, **common, **more), masters)
    if form == "muon-fsdp2":
        from muon_fsdp2 import Muon
        return MeshForm(torch, lambda p: Muon([{"params": p, "use_muon": True, **common, **more}]), masters)
    if form == "optax":
        return OptaxForm(torch, masters, lr, decay, momentum, **more)
    if form == "tinygrad":
        return TinygradForm(torch, masters, lr, decay, momentum, **more)
    formula = {"moonlight": moonlight, "dion": dion, "torchtitan": torchtitan}[form]
    return FormulaForm(torch, formula(torch, lr, decay, momentum, **more), masters)


def record(torch, options, form, variant):
    """Writes the kept steps of one variant; yields their files."""
    dialect, variants = FORMS[form]
    settings = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.95, **variants[variant]}
    if settings.get("fp32_matmul_prec") == "highest":
        dialect += "-fp32"
    if form == "muon-fsdp2" and not settings.get("nesterov", True):
        dialect = "wrong"  # 0.3.0 writes the scaled update over the momentum
    masters, gradients = parameters_and_gradients(torch, options.seed, variant == "edge")
    run = make(torch, form, settings, masters)
    for step in (1, 2, 3):
        before = run.state()
        run.step(gradients[step - 1])
        if step not in options.keep:
            continue
        tensors = {}
        for prefix, (now, momenta) in (("before", before), ("after", run.state())):
            for number, (master, momentum) in enumerate(zip(now, momenta)):
                tensors[f"{prefix}.master.{number}"] = master
                tensors[f"{prefix}.momentum_buffer.{number}"] = momentum
        for number, gradient in enumerate(gradients[step - 1]):
            tensors[f"before.grad.{number}"] = gradient
        metadata = {name: repr(settings[name]) for name in ("lr", "weight_decay", "momentum")}
        metadata.update({"rule": "muon", "t": str(step), "program": program(torch, form)})
        path = options.out / f"{dialect}.{form}.{variant}.{step}.safetensors"
        write_step(path, tensors, metadata)
        yield path


def named(zeroproof, path):
    """True if zeroproof identify names the dialect of the file, or none of a wrong step."""
    result = subprocess.run([zeroproof, "identify", path], capture_output=True, text=True, check=False)
    dialect = path.name.split(".")[0]
    if dialect == "wrong" and result.returncode == 1 and "no dialect" in result.stdout:
        return True
    if result.returncode == 0 and dialect in result.stdout.replace(",", " ").split():
        return True
    print(f"{path}: expected {dialect}\n{result.stdout}{result.stderr}", file=sys.stderr)
    return False


def parse(words):
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(prog="record_muon.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to; it is made")
    parser.add_argument("--forms", type=listed, default=list(FORMS), help=f"which of {','.join(FORMS)} (default: all)")
    parser.add_argument("--variants", type=listed, help="which variants (default: all of each form)")
    parser.add_argument("--keep", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3],
                        help="steps to write, of 1, 2, 3 (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of matrices and gradients (default: 1)")
    parser.add_argument("--identify", type=Path, metavar="ZEROPROOF", help="program that names each step")
    options = parser.parse_args(words)
    for form in options.forms:
        if form not in FORMS:
            parser.error(f"'{form}' is not known; use {', '.join(FORMS)}")
    return options


def main(words):
    options = parse(words)
    try:
        import torch
    except ImportError as error:
        print(f"record_muon.py: PyTorch is not here ({error}); pip install torch", file=sys.stderr)
        return 3
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    written = right = 0
    for form in options.forms:
        for variant in FORMS[form][1]:
            if options.variants and variant not in options.variants:
                continue
            try:
                for path in record(torch, options, form, variant):
                    written += 1
                    right += options.identify is not None and named(options.identify, path)
            except ImportError as error:
                print(f"record_muon.py: {form}: {error}; pip install {PACKAGES.get(form, form)}", file=sys.stderr)
                return 3
    print(f"{written} steps" + (f"; {right} named as expected" if options.identify else ""))
    return 0 if options.identify is None or right == written else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
