"""One peer of peers.py, in a separate process: torch is imported here only.

worker.py SETTINGS     JSON: flow, case, threads; rank, world and meeting of several processes

Reads commands from stdin and answers on stdout, one JSON object in a line each:
  {"do": "check"}               the steps of the saved case, compared with what ours has after them
  {"do": "steps", "count": 3}   timed steps, after one that is not timed
  {"do": "newton_schulz", "count": 3, "shape": [1024, 1024]}   the same of Newton-Schulz alone, of a Muon
"""

import datetime
import json
import os
import struct
import sys
import time
import types

LR = 1e-3
HYPER = {"lr": LR, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
MAX_NORM = 1.0
# Of the masters: a thousandth of what one step can move them, for each step. torch adds the norm in fp32.
BOUND_PER_STEP = 1e-3 * LR
BF16_SPACING = 2.0**-7  # distance of neighbours, relative to the smaller one, at most
# Newton-Schulz multiplies small singular values by up to 485 (papers/muon.md, [Muon:interval]), and so the roundings of
# their matrix, 2^-24 for each sum of up to 768 terms: the distance of two right results, of the move of a matrix.
MUON_NOISE = 485 * 2.0**-24 * 768**0.5
# With factors bf16: in distances of ours with factors bf16 from ours with fp32, whose roundings are as many.
MUON_DISTANCES = 2.0


def read_header(file):
    """The tensors of a safetensors file, name -> (dtype, shape, begin, end) from the file's start, and its metadata."""
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    start = 8 + length
    return {name: (tensor["dtype"], tensor["shape"], start + tensor["data_offsets"][0],
                   start + tensor["data_offsets"][1]) for name, tensor in header.items()}, metadata


class Case:
    """Micro-batch gradients, first state and result, tensor by tensor."""

    def __init__(self, path, torch):
        self.torch = torch
        with open(path, "rb") as file:
            self.places, metadata = read_header(file)
        self.path, self.metadata = path, metadata
        self.steps = int(metadata["steps"])
        self.steps_before = int(metadata["steps_before"])
        self.scale = 2.0 ** int(metadata["log2_loss_scale"])
        begins, numels = (self.flat(name).tolist() for name in ("tensor_begin", "tensor_numel"))
        self.ranges = list(zip(begins, numels))

    def flat(self, name):
        dtype, _, begin, end = self.places[name]
        types = {"F64": self.torch.float64, "F32": self.torch.float32, "BF16": self.torch.bfloat16, "I64": self.torch.int64}
        with open(self.path, "rb") as file:
            file.seek(begin)
            return self.torch.frombuffer(bytearray(file.read(end - begin)), dtype=types[dtype])

    def tensors(self, name):
        flat = self.flat(name)
        return [flat[begin:begin + numel].clone() for begin, numel in self.ranges]


class Flow:
    """Masters in fp32, gradients in fp32 under a loss scale, parameters in bf16."""

    def __init__(self, case, torch, rank=0):
        self.torch, self.case = torch, case
        self.leaves = case.tensors(f"leaf.{rank}")
        self.masters = [torch.nn.Parameter(tensor) for tensor in case.tensors("first.master")]
        self.halves = [tensor.detach().to(torch.bfloat16) for tensor in self.masters]
        self.found_inf = torch.zeros(1)
        self.inv_scale = torch.tensor(1 / case.scale)

    def seed(self, optimizer, step):
        """Sets the first state of an optimizer, for its parameters."""
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        averages, squares = self.case.tensors("first.exp_avg"), self.case.tensors("first.exp_avg_sq")
        for master, average, square in zip(self.masters, averages, squares):
            if id(master) in own:
                optimizer.state[master] = {"step": step(), "exp_avg": average, "exp_avg_sq": square}

    def counter(self):
        return self.torch.tensor(float(self.case.steps_before))

    def adamw(self, form):
        optimizer = self.torch.optim.AdamW(self.masters, **HYPER, **{form: True})
        self.seed(optimizer, self.counter)
        return optimizer

    def prepare(self):
        """The gradients of a backward pass; not timed."""

    def finish(self):
        """From gradients to parameters."""
        torch = self.torch
        grads = [master.grad for master in self.masters]
        self.found_inf.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(grads, self.found_inf, self.inv_scale)
        if self.found_inf.item():
            raise RuntimeError("the gradients are finite, and this flow found that they are not")
        torch.nn.utils.clip_grad_norm_(self.masters, MAX_NORM, foreach=True)
        self.optimizer.step()
        self.copy_params()

    def copy_params(self):
        with self.torch.no_grad():
            self.torch._foreach_copy_(self.halves, [master.detach() for master in self.masters])

    def step(self):
        self.finish()


class Local(Flow):
    """One process. The gradients are copied again before each step, because unscaling overwrites them."""

    def __init__(self, case, torch, form):
        super().__init__(case, torch)
        for master in self.masters:
            master.grad = torch.empty_like(master)
        if form:
            self.optimizer = self.adamw(form)

    def prepare(self):
        self.torch._foreach_copy_([master.grad for master in self.masters], self.leaves)


class DeepSpeed(Local):
    """As DeepSpeed's ZeRO optimizer on the CPU: the norm finds infinities, and one factor unscales and clips."""

    def __init__(self, case, torch):
        super().__init__(case, torch, None)
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        self.optimizer = DeepSpeedCPUAdam(self.masters, adamw_mode=True, **HYPER)
        self.seed(self.optimizer, lambda: case.steps_before)

    def step(self):
        torch = self.torch
        grads = [master.grad for master in self.masters]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))).item() / self.case.scale
        if not norm < float("inf"):
            raise RuntimeError("the gradients are finite, and their norm is not")
        torch._foreach_mul_(grads, min(1.0, MAX_NORM / (norm + 1e-6)) / self.case.scale)
        self.optimizer.step()
        self.copy_params()


class Muon(Local):
    """torch.optim.Muon of the matrices and AdamW of the rest, after one clip; bf16 gradients have no loss scale."""

    def __init__(self, case, torch, factors):
        super().__init__(case, torch, None)
        value = lambda name: float(case.metadata[name])
        self.rows, self.factors = case.flat("tensor_rows").tolist(), factors
        momenta = case.tensors("first.exp_avg")
        of_matrices, rest = [], []
        for i, (master, rows) in enumerate(zip(self.masters, self.rows)):
            if not rows:
                rest.append(master)
                continue
            self.masters[i] = torch.nn.Parameter(master.detach().view(rows, -1))
            self.masters[i].grad = torch.empty_like(self.masters[i])
            self.leaves[i], self.halves[i] = self.leaves[i].view(rows, -1), self.halves[i].view(rows, -1)
            of_matrices.append((self.masters[i], momenta[i].view(rows, -1)))
        if factors == "fp32":
            from torch.optim import _muon  # whose Newton-Schulz casts to torch.bfloat16
            _muon.torch = types.SimpleNamespace(**vars(torch) | {"bfloat16": torch.float32})
        self.muon = torch.optim.Muon(
            [matrix for matrix, _ in of_matrices], lr=value("lr"), weight_decay=value("weight_decay"),
            momentum=value("momentum"), nesterov=True, adjust_lr_fn="match_rms_adamw")
        for matrix, momentum in of_matrices:
            self.muon.state[matrix] = {"momentum_buffer": momentum}
        self.adamw = torch.optim.AdamW(rest, lr=value("lr"), betas=(value("beta1"), value("beta2")),
                                       eps=HYPER["eps"], weight_decay=value("weight_decay"), fused=True)
        self.seed(self.adamw, self.counter)

    def step(self):
        self.torch.nn.utils.clip_grad_norm_(self.masters, MAX_NORM, foreach=True)
        self.muon.step()
        self.adamw.step()
        self.copy_params()

    def orthogonal(self, matrix):
        from torch.optim import _muon
        coefficients = (_muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C)
        return _muon._zeropower_via_newtonschulz(matrix, coefficients, _muon.DEFAULT_NS_STEPS, _muon.EPS)

    def newton_schulz(self, shape, count):
        matrix = self.torch.randn(shape, generator=self.torch.Generator().manual_seed(1))
        return timed(count, lambda: self.orthogonal(matrix))

    def compare(self):
        case, lr = self.case, float(self.case.metadata["lr"])
        difference = moved = noise = 0.0
        noise_bound = MUON_NOISE if self.factors == "fp32" else MUON_DISTANCES
        for master, rows, narrow, wanted, first in zip(
                self.masters, self.rows, case.tensors("master"), case.tensors("master.fp32"),
                case.tensors("first.master")):
            apart = master.detach().view(-1) - wanted
            move = wanted - first
            moved = max(moved, move.abs().max().item())
            if rows:
                unit = move if self.factors == "fp32" else narrow - wanted
                noise = max(noise, (apart.norm() / unit.norm()).item())
            else:
                difference = max(difference, apart.abs().max().item())
        bound = case.steps * BOUND_PER_STEP * lr / LR
        ok = difference <= bound and noise <= noise_bound and moved > 100 * bound
        return {"ok": ok, "difference": difference, "bound": bound, "moved": moved, "noise": noise,
                "noise_bound": noise_bound, "distance": self.distances()}

    def distances(self):
        """Of Newton-Schulz from exact arithmetic, as zeroproof-bench muon measures its own."""
        found, i = [], 0
        while f"distant.{i}" in self.case.places:
            shape = self.case.places[f"distant.{i}"][1]
            matrix, exact = (self.case.flat(f"{name}.{i}").view(shape) for name in ("distant", "exact"))
            found.append(((self.orthogonal(matrix).double() - exact).norm() / exact.norm()).item())
            i += 1
        return found


class Distributed(Flow):
    """DistributedDataParallel over gloo; the backward pass computes nothing but returns the micro-batch gradients."""

    def __init__(self, case, torch, rank, sharded):
        super().__init__(case, torch, rank)
        flow = self

        class Leaves(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *masters):
                return masters[0].new_zeros(())

            @staticmethod
            def backward(ctx, _):
                return tuple(leaf.detach() for leaf in flow.leaves)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.masters = torch.nn.ParameterList(flow.masters)

            def forward(self):
                return Leaves.apply(*self.masters)

        self.model = torch.nn.parallel.DistributedDataParallel(Model(), gradient_as_bucket_view=True)
        if not sharded:
            self.optimizer = self.adamw("fused")
            return
        from torch.distributed.optim import ZeroRedundancyOptimizer
        self.optimizer = ZeroRedundancyOptimizer(self.masters, optimizer_class=torch.optim.AdamW, fused=True, **HYPER)
        self.seed(self.optimizer.optim, self.counter)

    def prepare(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.torch.distributed.barrier()

    def step(self):
        self.model().backward()
        self.finish()


def compare(flow):
    """How far masters and parameters are from ours, and whether that is within the bound."""
    case, bound = flow.case, flow.case.steps * BOUND_PER_STEP
    difference = moved = 0.0
    params_ok = True
    rows = zip(flow.masters, flow.halves, case.tensors("master"), case.tensors("param"), case.tensors("first.master"))
    for master, half, wanted, param, first in rows:
        difference = max(difference, (master.detach() - wanted).abs().max().item())
        moved = max(moved, (wanted - first).abs().max().item())
        near = (half.float() - param.float()).abs() <= bound + BF16_SPACING * param.float().abs()
        params_ok = params_ok and bool(near.all())
    # Parameters that hardly moved would agree with anything. (NaN is within no bound.)
    ok = difference <= bound and params_ok and moved > 100 * bound
    return {"ok": ok, "difference": difference, "bound": bound, "moved": moved, "params_ok": params_ok}


def make_flow(settings, torch):
    case = Case(settings["case"], torch)
    name = settings["flow"]
    if name in ("torch-fused", "torch-foreach"):
        return Local(case, torch, name.split("-")[1])
    if name == "deepspeed":
        return DeepSpeed(case, torch)
    if name in ("torch-muon", "torch-muon-fp32"):
        return Muon(case, torch, "fp32" if name == "torch-muon-fp32" else "bf16")
    torch.distributed.init_process_group("gloo", init_method=settings["meeting"], rank=settings["rank"],
                                         world_size=settings["world"], timeout=datetime.timedelta(seconds=120))
    return Distributed(case, torch, settings["rank"], name == "zero")


def timed(count, step, prepare=lambda: None):
    """Seconds of each step, after one that is not timed."""
    seconds = []
    for i in range(count + 1):
        prepare()
        start = time.perf_counter()
        step()
        if i > 0:
            seconds.append(time.perf_counter() - start)
    return seconds


def answer(flow, command):
    if command["do"] == "check":
        for _ in range(flow.case.steps):
            flow.prepare()
            flow.step()
        return flow.compare() if isinstance(flow, Muon) else compare(flow)
    if command["do"] == "newton_schulz":
        return {"seconds": flow.newton_schulz(command["shape"], command["count"])}
    return {"seconds": timed(command["count"], flow.step, flow.prepare)}


def main():
    settings = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    try:
        import torch
        torch.set_num_threads(settings["threads"])
        flow = make_flow(settings, torch)
        print(json.dumps({"ready": True}), file=out)
        for line in sys.stdin:
            print(json.dumps(answer(flow, json.loads(line))), file=out)
    except Exception as error:  # every error becomes the reason of the row
        text = " ".join(str(error).split())
        print(json.dumps({"unavailable": f"{type(error).__name__}: {text}"}), file=out)
        raise


if __name__ == "__main__":
    main()
