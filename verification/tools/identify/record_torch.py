#!/usr/bin/env python3
"""Records steps of PyTorch's optimizers on the CPU, for zeroproof identify.

Every variant (adamw, adam and sgd; single, foreach and fused; with amsgrad, maximize, decay and without) starts from
random parameters of the sizes of --sizes and takes --steps steps with random gradients. One safetensors file is written
for each step that --keep names: the tensors before and after it, and the settings. With --identify each file goes to
that program at once and is removed, so that millions of elements need no disk space.

ATEN_CPU_CAPABILITY=default in the environment records the code without vectors. --forms deepspeed records
DeepSpeed's CPUAdam instead (it needs pip install deepspeed, and a compiler; adamw and adam-l2 alone). --forms
timm,timm-foreach,torch-optimizer records Lamb of these libraries (pip install timm torch_optimizer; lamb alone).

Needs PyTorch (pip install torch), nothing else. Exit codes: 0 everything was written, and named if --identify was
given; 1 a step was not named as expected; 2 bad usage; 3 PyTorch is missing.
"""

import argparse
import ctypes
import json
import os
import struct
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

STATE = {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq", "max_exp_avg_sq": "max_exp_avg_sq",
         "momentum_buffer": "momentum_buffer"}
ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}

# name: (rule, how torch runs it, settings)
VARIANTS = {
    "adamw": ("adamw", {"weight_decay": 0.01}),
    "adamw-no-decay": ("adamw", {"weight_decay": 0.0}),
    "adamw-amsgrad-maximize": ("adamw", {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    "adamw-beta1-0.4": ("adamw", {"weight_decay": 0.01, "beta1": 0.4, "beta2": 0.95, "eps": 1e-6}),
    "adam-l2": ("adam", {"weight_decay": 0.05}),
    "adam-amsgrad": ("adam", {"weight_decay": 0.0, "amsgrad": True}),
    "sgd": ("sgd", {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "dampening": 0.1}),
    "sgd-nesterov": ("sgd", {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "nesterov": True}),
    "sgd-plain": ("sgd", {"lr": 0.7, "weight_decay": 0.3, "momentum": 0.0, "maximize": True}),
    "lamb": ("lamb", {"weight_decay": 0.01}),
    "lamb-no-decay": ("lamb", {"weight_decay": 0.0}),
    "lamb-biased": ("lamb", {"weight_decay": 0.1, "bias_correction": False}),
}
FORMS = {"single": {"foreach": False, "fused": False}, "foreach": {"foreach": True, "fused": False},
         "fused": {"foreach": False, "fused": True}, "deepspeed": {},
         "timm": {"foreach": False}, "timm-foreach": {"foreach": True}, "torch-optimizer": {}}
LAMB = {"timm", "timm-foreach", "torch-optimizer"}

DEEPSPEED = {"adamw", "adamw-no-decay", "adamw-beta1-0.4", "adam-l2"}


def program(torch, form):
    if form in LAMB:
        library = form.removesuffix("-foreach").replace("-", "_")
        return f"{library} {version(library)}, PyTorch {torch.__version__}"
    if form != "deepspeed":
        return f"PyTorch {torch.__version__}"
    import deepspeed
    return f"DeepSpeed {deepspeed.__version__}"


def expected(rule, form):
    """The dialect's name."""
    if form == "deepspeed":
        return "deepspeed-cpu-adam-" + deepspeed_width()
    if rule == "lamb":
        name = {"timm": "timm-lamb", "timm-foreach": "timm-lamb-foreach"}.get(form, "torch-optimizer-lamb")
        return name + "-default" if default_capability() else name
    if rule == "sgd":
        name = "torch-sgd-fused" if form == "fused" else "torch-sgd"
        return "torch-sgd-default" if default_capability() else name
    name = "torch-cpu-fused" if form == "fused" else "torch-cpu-single"
    return name + "-default" if default_capability() else name


def deepspeed_width():
    """The vectors its code is compiled with, as -march=native chooses them here."""
    words = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return "avx512" if "avx512f" in words else "avx2" if "avx2" in words else "scalar"


def default_capability():
    return os.environ.get("ATEN_CPU_CAPABILITY") == "default"


def write_step(path, tensors, metadata):
    """A safetensors file: 8 bytes of length, JSON, data. All tensors are fp32."""
    header, data, position = {"__metadata__": metadata}, [], 0
    for name in sorted(tensors):
        values = tensors[name].detach().contiguous()
        raw = ctypes.string_at(values.data_ptr(), 4 * values.numel()) if values.numel() else b""
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [position, position + len(raw)]}
        data.append(raw)
        position += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def make_optimizer(torch, rule, form, settings, parameters):
    if rule == "lamb":
        return make_lamb(form, settings, parameters)
    common = {"lr": settings["lr"], "weight_decay": settings["weight_decay"], "maximize": settings["maximize"],
              **FORMS[form]}
    if form == "deepspeed":
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        del common["maximize"]
        return DeepSpeedCPUAdam(parameters, betas=(settings["beta1"], settings["beta2"]), eps=settings["eps"],
                                adamw_mode=rule == "adamw", **common)
    if rule == "sgd":
        return torch.optim.SGD(parameters, momentum=settings["momentum"], dampening=settings["dampening"],
                               nesterov=settings["nesterov"], **common)
    kind = torch.optim.AdamW if rule == "adamw" else torch.optim.Adam
    return kind(parameters, betas=(settings["beta1"], settings["beta2"]), eps=settings["eps"],
                amsgrad=settings["amsgrad"], **common)


def make_lamb(form, settings, parameters):
    common = {"lr": settings["lr"], "betas": (settings["beta1"], settings["beta2"]), "eps": settings["eps"],
              "weight_decay": settings["weight_decay"]}
    if form == "torch-optimizer":
        from torch_optimizer import Lamb
        return Lamb(parameters, debias=settings["bias_correction"], **common)
    from timm.optim.lamb import Lamb
    return Lamb(parameters, bias_correction=settings["bias_correction"], max_grad_norm=None, **FORMS[form], **common)


def settings_of(rule, changes):
    if rule == "lamb":
        return {"lr": 1e-2, **ADAM, "eps": 1e-6, "bias_correction": True, **changes}
    base = {"lr": 1e-3, "maximize": False}
    base.update({"momentum": 0.0, "dampening": 0.0, "nesterov": False} if rule == "sgd" else
                {**ADAM, "amsgrad": False})
    return {**base, **changes}


def snapshot(prefix, optimizer, parameters, gradients):
    tensors = {}
    for number, parameter in enumerate(parameters):
        tensors[f"{prefix}.master.{number}"] = parameter.detach().clone()
        for key, name in STATE.items():
            value = optimizer.state.get(parameter, {}).get(key)
            if value is not None:
                tensors[f"{prefix}.{name}.{number}"] = value.clone()
        if gradients:
            tensors[f"{prefix}.grad.{number}"] = parameter.grad.clone()
    return tensors


def with_zero_state(torch, tensors, parameters, settings):
    """PyTorch makes Adam's state in the first step, of zeros."""
    for number, parameter in enumerate(parameters):
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if settings.get("amsgrad") else [])
        for name in names:
            tensors.setdefault(f"before.{name}.{number}", torch.zeros_like(parameter))


def record(torch, options, rule, form, variant, judge):
    settings = settings_of(rule, VARIANTS[variant][1])
    torch.manual_seed(options.seed)
    parameters = [torch.nn.Parameter(torch.randn(n) * 0.05) for n in options.sizes]
    scales = [torch.rand(n) * 1e-2 + 1e-5 for n in options.sizes]
    optimizer = make_optimizer(torch, rule, form, settings, parameters)
    for step in range(1, options.steps + 1):
        for parameter, scale in zip(parameters, scales):
            parameter.grad = torch.randn(parameter.numel()) * scale
        keep = step in options.keep
        if keep:
            tensors = snapshot("before", optimizer, parameters, True)
            if rule != "sgd":
                with_zero_state(torch, tensors, parameters, settings)
        optimizer.step()
        if not keep:
            continue
        tensors.update(snapshot("after", optimizer, parameters, False))
        metadata = {key: repr(int(value) if isinstance(value, bool) else value) for key, value in settings.items()}
        metadata.update({"rule": rule, "program": program(torch, form)})
        if rule != "sgd":
            metadata["t"] = str(step)
        path = options.out / f"{expected(rule, form)}.{form}.{variant}.{step}.safetensors"
        write_step(path, tensors, metadata)
        judge(path, expected(rule, form))


class Judge:
    """Asks zeroproof identify, and keeps count."""

    def __init__(self, program):
        self.program, self.elements, self.steps, self.named = program, 0, 0, 0

    def __call__(self, path, name):
        if self.program is None:
            return
        result = subprocess.run([self.program, "identify", path], capture_output=True, text=True, check=False)
        verdict = result.stdout.strip().splitlines()[-1] if result.stdout else result.stderr.strip()
        self.steps += 1
        if result.returncode == 0 and name in verdict.replace(",", " ").split():
            self.named += 1
            path.unlink()
            return
        print(f"{path}: expected {name}\n{result.stdout}{result.stderr}", file=sys.stderr)


def parse(words):
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser = argparse.ArgumentParser(prog="record_torch.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to; it is made")
    parser.add_argument("--sizes", type=numbers, default=[1, 7, 16, 61, 129], help="elements of the parameters "
                        "(default: 1,7,16,61,129)")
    parser.add_argument("--steps", type=int, default=50, help="steps of a variant (default: 50)")
    parser.add_argument("--keep", type=numbers, help="steps to write (default: all)")
    parser.add_argument("--variants", help=f"which of {','.join(VARIANTS)} (default: all that the forms have)")
    parser.add_argument("--forms", default="single,foreach,fused",
                        help=f"which (default: %(default)s; deepspeed, {', '.join(sorted(LAMB))} too)")
    parser.add_argument("--seed", type=int, default=1, help="of parameters and gradients (default: 1)")
    parser.add_argument("--identify", type=Path, metavar="ZEROPROOF", help="program that names each step")
    options = parser.parse_args(words)
    options.keep = set(options.keep or range(1, options.steps + 1))
    options.forms = options.forms.split(",")
    lamb = set(options.forms) <= LAMB
    options.variants = options.variants.split(",") if options.variants else \
        [name for name in VARIANTS if (VARIANTS[name][0] == "lamb") == lamb]
    if "deepspeed" in options.forms and not set(options.variants) <= DEEPSPEED:
        parser.error(f"--forms deepspeed has only --variants {','.join(sorted(DEEPSPEED))}")
    for given, known in ((options.variants, VARIANTS), (options.forms, FORMS)):
        for name in given:
            if name not in known:
                parser.error(f"'{name}' is not known; use {', '.join(known)}")
    if any((VARIANTS[name][0] == "lamb") != (form in LAMB) for name in options.variants for form in options.forms):
        parser.error(f"lamb has only --forms {','.join(sorted(LAMB))}, and they only lamb")
    return options


def main(words):
    options = parse(words)
    try:
        import torch
    except ImportError as error:
        print(f"record_torch.py: PyTorch is not here ({error}); pip install torch", file=sys.stderr)
        return 3
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    judge = Judge(options.identify)
    for form in options.forms:
        for variant in options.variants:
            record(torch, options, VARIANTS[variant][0], form, variant, judge)
    elements = sum(options.sizes)
    written = len(options.forms) * len(options.variants) * len([k for k in options.keep if k <= options.steps])
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}: {written} steps of {elements} "
          f"elements, {written * elements} in all" + (f"; {judge.named} named as expected" if judge.program else ""))
    return 0 if judge.named == judge.steps else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
