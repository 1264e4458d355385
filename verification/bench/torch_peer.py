#!/usr/bin/env python3
"""Times the step that users of PyTorch write on a GPU, against a copy in the same process.

Two flows over fp32 masters with bf16 copies of the parameters: clip_grad_norm_(foreach) + AdamW(fused) + copy to bf16;
and the same under a GradScaler, whose check for infinities the host waits for. Each is timed with CUDA events, in
alternation with a copy of fp32 values, in another order each round. A row's ratio is its time / that of the copy, each
per element: it can be compared with a row of `zeroproof-bench device` divided by its "RW" limit.

Exit codes: 0 measured; 2 bad usage; 3 PyTorch or a GPU is missing, which the record says too.
"""

import argparse
import json
import random
import statistics
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree is not changed
from peer.report import Problem, numbers

HYPER = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
MAX_NORM = 1.0
LOSS_SCALE = 2.0**10


def say(text):
    print(f"torch_peer: {text}", file=sys.stderr, flush=True)


def parse(words):
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise Problem(2, message, "the command line was not understood", "see torch_peer.py --help")

    parser = Parser(prog="torch_peer.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numel", type=numbers, default=[1 << 26, 1 << 30],
                        help="elements, one group each (default: 67108864,1073741824)")
    parser.add_argument("--tensors", type=numbers, default=[1, 300], help="they are cut into (default: 1,300)")
    parser.add_argument("--rounds", type=int, default=15, help="times every row is measured (default: 15)")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    options = parser.parse_args(words)
    if options.rounds < 1:
        raise Problem(2, f"--rounds is {options.rounds}", "there would be nothing to time", "choose 1 or more")
    return options


def find_torch():
    """The module, or the reason why it is unusable."""
    remedy = "run this where PyTorch has a GPU"
    try:
        import torch
    except Exception as error:  # any error of a broken installation
        raise Problem(3, "nothing was measured: PyTorch cannot be imported",
                      " ".join(f"{type(error).__name__}: {error}".split()), remedy) from error
    if not torch.cuda.is_available():
        raise Problem(3, "nothing was measured: PyTorch finds no GPU", f"torch {torch.__version__}", remedy)
    return torch


def sizes(tensors, numel):
    """Unequal odd ones, as `zeroproof-bench device` makes them."""
    if tensors == 1:
        return [numel]
    weights = [1 + i * 37 % 19 for i in range(tensors)]
    total = sum(weights)
    return [max(1, (numel * weight // total - 1) | 1) for weight in weights]


class Flow:
    """From existing gradients to bf16 parameters."""

    name = "clip_grad_norm_ + AdamW(fused) + bf16"

    def __init__(self, torch, parts):
        self.torch = torch
        self.masters = [torch.nn.Parameter(torch.full((n,), 2.0**-10, device="cuda")) for n in parts]
        self.halves = [torch.empty(n, dtype=torch.bfloat16, device="cuda") for n in parts]
        self.grads = [torch.randn(n, device="cuda") for n in parts]
        self.optimizer = torch.optim.AdamW(self.masters, fused=True, **HYPER)

    def prepare(self):
        """The gradients of a backward pass; not timed. Clipping overwrites them."""
        for master, grad in zip(self.masters, self.grads):
            if master.grad is None:
                master.grad = grad.clone()
            else:
                master.grad.copy_(grad)

    def step(self):
        self.torch.nn.utils.clip_grad_norm_(self.masters, MAX_NORM, foreach=True)
        self.optimizer.step()
        self.copy_params()

    def copy_params(self):
        with self.torch.no_grad():
            self.torch._foreach_copy_(self.halves, [master.detach() for master in self.masters])


class ScaledFlow(Flow):
    name = "GradScaler + clip_grad_norm_ + AdamW(fused) + bf16"

    def __init__(self, torch, parts):
        super().__init__(torch, parts)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=LOSS_SCALE, growth_interval=1 << 30)
        self.scaler.scale(torch.zeros(1, device="cuda"))  # allocates its tensors

    def step(self):
        self.scaler.unscale_(self.optimizer)
        self.torch.nn.utils.clip_grad_norm_(self.masters, MAX_NORM, foreach=True)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.copy_params()


class Copy:
    name = "copy of fp32"

    def __init__(self, torch, numel):
        self.values = torch.ones(numel, device="cuda")
        self.target = torch.empty_like(self.values)

    def prepare(self):
        pass

    def step(self):
        self.target.copy_(self.values)


def seconds_of(torch, row):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    row.prepare()
    torch.cuda.synchronize()
    begin.record()
    row.step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3


def measure(torch, options, numel, tensors):
    parts = sizes(tensors, numel)
    rows = [Copy(torch, numel)]
    samples = {}
    flows = [Flow(torch, parts), ScaledFlow(torch, parts)]
    for number in range(options.rounds + 2):
        turns = rows + flows
        random.Random(number).shuffle(turns)
        for row in turns:
            seconds = seconds_of(torch, row)
            if number > 1:  # memory of the optimizers is allocated in the first rounds
                samples.setdefault(row.name, []).append(seconds)
    copy = samples[Copy.name]
    found = {}
    for name, seconds in samples.items():
        ratios = [a / b * numel / (numel if name == Copy.name else sum(parts)) for a, b in zip(seconds, copy)]
        found[name] = {"median_s": statistics.median(seconds), "best_s": min(seconds), "samples_s": seconds,
                       "times_copy": statistics.median(ratios)}
    return {"numel": numel, "tensors": tensors, "rows": found}


def report(group):
    print(f"{group['numel']:,} elements, {group['tensors']} tensor{'' if group['tensors'] == 1 else 's'}")
    for name, row in group["rows"].items():
        print(f"  {name:<52} {1e3 * row['median_s']:>9.3f} ms  {row['times_copy']:>6.2f} copies")
    print(flush=True)


def run(options, record):
    torch = find_torch()
    record["device"] = torch.cuda.get_device_name()
    record["torch"] = torch.__version__
    record["groups"] = []
    for numel in options.numel:
        for tensors in options.tensors:
            say(f"{numel} elements, {tensors} tensors, {options.rounds} rounds")
            try:
                group = measure(torch, options, numel, tensors)
                report(group)
            except torch.cuda.OutOfMemoryError as error:
                group = {"numel": numel, "tensors": tensors, "not_measured": " ".join(str(error).split())}
                say(f"not measured: {group['not_measured']}")
            torch.cuda.empty_cache()
            record["groups"].append(group)


def main(words):
    options = parse(words)
    record = {"schema": "zeroproof-bench-device-peer/1", "rounds": options.rounds}
    try:
        run(options, record)
    except Problem as problem:
        record["not_measured"] = str(problem)
        raise
    finally:
        if options.json:
            try:
                options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            except OSError as error:
                raise Problem(2, f"{options.json} cannot be written: {error.strerror}", "the record is lost",
                              "name a file in a folder that exists and is yours") from error
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        print(f"torch_peer.py: {problem}", file=sys.stderr)
        sys.exit(problem.code)
    except KeyboardInterrupt:
        sys.exit(130)
