"""What zproof.torch.record meets in trainings of every kind: it records or switches itself off, and changes nothing.

recorder_limits_test.py rank KIND FOLDER RANK WORLD    one rank of a training of Ranks
"""

import datetime
import functools
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint
except ImportError:
    torch = None

PROGRAM = os.environ.get("ZP_PROGRAM")
ROW = re.compile(r"^(\d+(?: to \d+)?)" + 7 * r" +([^\s,]+)" + r" *$", re.M)  # not the line of counts
PHASES = ("reduce", "overflow", "norm", "clip", "update", "cast", "state")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 1))


def loss_of(model):
    return model(torch.randn(4, 6)).square().mean()


def plain(model, optimizer, step):
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


def gradient_read(model, optimizer, step):
    optimizer.zero_grad()
    loss = loss_of(model)
    torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    loss.backward()
    optimizer.step()


def discarded_by_the_model(model, optimizer, step):
    loss_of(model).backward()
    model.zero_grad()
    loss_of(model).backward()
    optimizer.step()
    model.zero_grad()


def norm_read(model, optimizer, step):
    optimizer.zero_grad()
    loss_of(model).backward()
    for limit in (float("inf"), 0.1, float("inf")):
        nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()


class Branching(nn.Module if torch else object):
    """Has no gradient in some of its parameters after the first step."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 1)
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        return self.first(x) if self.passes > 1 else self.second(self.first(x))


def zeros_kept(model, optimizer, step):
    loss_of(model).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def two_optimizers(model, optimizer, step):
    if step == 0:
        model.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        model.other = torch.optim.SGD([torch.ones(6, requires_grad=True)], lr=0.1)
    other, scaler = model.other, model.scaler
    factors = other.param_groups[0]["params"]
    optimizer.zero_grad()
    other.zero_grad()
    loss = model(torch.randn(4, 6) * factors[0]).square().mean()
    scaler.scale(loss * (float("inf") if step == 1 else 1.0)).backward()
    for one, parameters in ((optimizer, model.parameters()), (other, factors)):
        scaler.unscale_(one)
        nn.utils.clip_grad_norm_(parameters, 0.1)
    scaler.step(other)
    scaler.step(optimizer)
    scaler.update()


class Reentrant(nn.Module if torch else object):
    """A layer that is used several times in one pass."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        x = self.layer(x)
        for _ in range(2):
            x = checkpoint(self.layer, x, use_reentrant=True)
        return x


def with_integers():
    model = network()
    model.codes = nn.Parameter(torch.ones(3, dtype=torch.int32), requires_grad=False)
    model.register_buffer("counts", torch.ones(2, dtype=torch.int64))
    return model


def frozen_first():
    model = network()
    model[0].weight.requires_grad_(False)
    return model


def unfrozen(model, optimizer, step):
    if step == 1:
        model[0].weight.requires_grad_(True)
        optimizer.add_param_group({"params": [model[0].weight]})
    plain(model, optimizer, step)


def clip_of_a_part(model, optimizer, step):
    optimizer.zero_grad()
    loss_of(model).backward()
    nn.utils.clip_grad_norm_(model[0].parameters(), 0.1)
    optimizer.step()


def closure(model, optimizer, step):
    def evaluated():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    optimizer.step(evaluated)


class Complex(nn.Module if torch else object):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, dtype=torch.complex64))

    def forward(self, x):
        return (self.weight * x).abs()


class Sparse(nn.Module if torch else object):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5, 3, sparse=True)

    def forward(self, x):
        return self.table(x.abs().long() % 5)


class Own:
    """An optimizer of the program."""

    def __init__(self, parameters):
        self.param_groups = [{"params": parameters, "lr": 0.1}]

    def zero_grad(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    @torch.no_grad() if torch else staticmethod
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter -= 0.1 * parameter.grad


def trained(loop, make, optimizer_of, folder=None, steps=3):
    """Parameters at the end, and the warnings of the recorder."""
    import zproof

    model = make()
    optimizer = optimizer_of([one for one in model.parameters() if one.requires_grad])
    torch.manual_seed(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorder = zproof.torch.record(optimizer, model, folder) if folder else None
        for step in range(steps):
            loop(model, optimizer, step)
        if recorder:
            recorder.close()
    return ([one.detach().clone() for one in model.parameters()],
            [str(one.message) for one in caught if "zproof records" in str(one.message)])


def judged(folder):
    """Exit code, all text, and the verdicts of each row by phase."""
    ran = subprocess.run([PROGRAM, "judge-run", folder], capture_output=True, text=True)
    rows = [dict(zip(("steps", *PHASES), row)) for row in ROW.findall(ran.stdout)]
    return ran.returncode, ran.stdout + ran.stderr, rows


def adamw(**words):
    return functools.partial(torch.optim.AdamW, **{"lr": 1e-2, **words})


@unittest.skipIf(torch is None, "torch is not here")
@unittest.skipIf(PROGRAM is None, "ZP_PROGRAM is not set")
class Limits(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def assert_recorded(self, name, loop, make=None, optimizer_of=None, steps="3"):
        with self.subTest(name):
            make, optimizer_of = make or network, optimizer_of or adamw()
            recorded, said = trained(loop, make, optimizer_of, self.folder / name)
            self.assertTrue(all(map(torch.equal, recorded, trained(loop, make, optimizer_of)[0])))
            self.assertEqual(said, [])
            code, text, rows = judged(self.folder / name)
            self.assertEqual(code, 0, text)
            self.assertTrue(rows and rows[-1]["steps"].endswith(steps), text)
            for row in rows:
                self.assertNotIn("-", [row["reduce"], row["overflow"], row["cast"]], text)
            self.assertNotIn("not recorded: leaf", text)

    def test_trainings_that_are_recorded(self):
        for loop in (plain, gradient_read, discarded_by_the_model, norm_read, two_optimizers):
            self.assert_recorded(loop.__name__, loop)
        self.assert_recorded("reentrant", plain, Reentrant)
        self.assert_recorded("gradients of zeros", zeros_kept, Branching)
        self.assert_recorded("no gradients", plain, Branching)
        self.assert_recorded("integers", plain, with_integers)
        for words in ({"foreach": True}, {"fused": True}, {"amsgrad": True}, {"maximize": True},
                      {"lr": torch.tensor(1e-2)}):
            self.assert_recorded(next(iter(words)), plain, optimizer_of=adamw(**words))

    def test_an_optimizer_whose_update_is_not_judged(self):
        self.assert_recorded("RMSprop", norm_read, optimizer_of=torch.optim.RMSprop)
        for row in judged(self.folder / "RMSprop")[2]:
            self.assertNotIn("-", [row["norm"], row["clip"]])
            self.assertEqual(row["update"], "-")

    def assert_off(self, loop, reason, code, make=None, optimizer_of=None):
        """The training is the one without a recorder, after one warning; a judge has the steps before it."""
        with self.subTest(reason):
            folder = self.folder / reason.replace(" ", "-")
            make, optimizer_of = make or network, optimizer_of or adamw()
            recorded, said = trained(loop, make, optimizer_of, folder)
            self.assertTrue(all(map(torch.equal, recorded, trained(loop, make, optimizer_of)[0])))
            self.assertEqual(len(said), 1, said)
            self.assertRegex(said[0], r"^zproof records no steps after \d: .+; .+$")
            self.assertIn(reason, said[0])
            self.assertEqual(judged(folder)[0], code)

    def test_trainings_that_are_not(self):
        self.assert_off(unfrozen, "is trained that was not", 0, frozen_first)
        self.assert_off(clip_of_a_part, "the norm is of 2 parameters", 2)
        self.assert_off(closure, "gets a closure", 2)
        self.assert_off(plain, "is complex64", 2, Complex)
        self.assert_off(plain, "is Own, no torch.optim.Optimizer", 2, optimizer_of=Own)
        self.assert_off(plain, "is sparse", 2, Sparse, functools.partial(torch.optim.SGD, lr=0.1))

    def test_a_compiled_step(self):
        ran = self.run_script("""
def compiled(parameters):
    optimizer = adamw()(parameters)
    optimizer.step = torch.compile(optimizer.step, backend="eager")
    return optimizer
recorded, said = trained(plain, network, compiled, sys.argv[2])
assert all(map(torch.equal, recorded, trained(plain, network, compiled)[0]))
assert said == [], said
""")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("run_recorder", ran.stderr)  # the compiler has not entered it
        rows = judged(self.folder / "run")[2]
        self.assertEqual([[row["reduce"], row["cast"]] for row in rows], [["bits", "right"]] * len(rows))
        self.assertTrue(rows)

    def test_a_recording_that_is_cut_off(self):
        trained(plain, network, adamw(), self.folder)
        path = self.folder / "step000002.rank0.safetensors"
        data = path.read_bytes()
        for size in (0, 7, 100, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:size])
            code, text, _ = judged(self.folder)
            self.assertEqual(code, 2, text)
            self.assertIn("step000002.rank0.safetensors", text)
            self.assertNotIn("pass", text)
        path.unlink()
        self.assertEqual(judged(self.folder)[0], 0)  # steps may have gaps

    def run_script(self, text):
        script = "import sys; sys.path.insert(0, sys.argv[1])\nfrom recorder_limits_test import *\n" + text
        return subprocess.run([sys.executable, "-c", script, str(pathlib.Path(__file__).parent), str(self.folder / "run")],
                              capture_output=True, text=True, timeout=300)

    def test_a_full_disk(self):
        ran = self.run_script("""
import signal
def full(model, optimizer, step):
    if step == 2:  # step 1 is written in the forward pass of step 2
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    plain(model, optimizer, step)
recorded, said = trained(full, network, adamw(), sys.argv[2], 4)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert all(map(torch.equal, recorded, trained(plain, network, adamw(), steps=4)[0]))
print(len(said), said[0])
""")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"^1 zproof records no steps after \d: .+large")
        self.assertEqual([path.name for path in (self.folder / "run").glob("step*.safetensors")],
                         ["step000001.rank0.safetensors"])
        self.assertEqual(judged(self.folder / "run")[0], 0)

    def test_another_torch(self):
        ran = self.run_script("""
del torch.nn.utils.clip_grad._clip_grads_with_norm_  # PyTorch 2.5 has none
print(trained(plain, network, adamw(), sys.argv[2])[1])
""")
        self.assertRegex(ran.stdout, r"zproof records no steps after 0: PyTorch .+ clips in one function.+; use 2.6 or later")

    def test_without_torch(self):
        ran = self.run_script("""
for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
    sys.modules[name] = None
import zproof
zproof.torch.record(None, None, sys.argv[2])
""")
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr.splitlines()[-1], r"^ImportError: torch is not installed \(.+\); .+$")


def rank_main(kind, folder, rank, world):
    import zproof

    torch.set_num_threads(1)
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world,
                                   timeout=datetime.timedelta(seconds=60))
    model = network()
    if kind.startswith("mesh"):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard
        whole = DeviceMesh("cpu", [0, 1])
        split = DeviceMesh("cpu", [[0], [1]], mesh_dim_names=("all", "own"))[kind.removeprefix("mesh-")]
        for module, mesh in ((model[0], split), (model, whole)):
            fully_shard(module, mesh=mesh)
    else:
        if kind == "branch":
            model = Branching()
            model.passes = 5 if rank else -10
        model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=kind == "branch")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    every = 2 if kind == "every" and rank == 1 else 1
    with zproof.torch.record(optimizer, model, folder + "/run", every=every):
        for step in range(4):
            if kind == "dies" and rank == 1 and step == 2:
                os._exit(9)
            plain(model, optimizer, step)
    distributed.destroy_process_group()


@unittest.skipIf(torch is None, "torch is not here")
@unittest.skipIf(PROGRAM is None, "ZP_PROGRAM is not set")
class Ranks(unittest.TestCase):
    def ran(self, kind):
        """Exit codes and texts of two ranks, and the verdict."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        ranks = [subprocess.Popen([sys.executable, __file__, "rank", kind, temporary.name, str(rank), "2"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
        said = [rank.communicate(timeout=200)[0] for rank in ranks]
        return [rank.returncode for rank in ranks], said, judged(temporary.name + "/run")

    def test_a_rank_dies(self):
        codes, said, (code, text, _) = self.ran("dies")
        self.assertEqual(codes[1], 9)
        self.assertNotIn("zproof records", said[0])
        self.assertEqual(code, 2, text)  # step 2 of the dead rank was not written
        self.assertRegex(text, "step000002.rank0.safetensors: .+ the files of 1 ranks .+; record every rank, or remove the "
                         "files of this step")

    def test_ranks_record_different_steps(self):
        codes, _, (code, text, _) = self.ran("every")
        self.assertEqual((codes, code), ([0, 0], 2), text)
        self.assertIn("step000002.rank0.safetensors: world is 2, and the step has the files of 1 ranks", text)

    def test_a_parameter_that_one_rank_uses(self):
        codes, said, (code, text, rows) = self.ran("branch")
        self.assertEqual((codes, code), ([0, 0], 0), (said, text))
        self.assertNotIn("not recorded: leaf", text)
        self.assertEqual(rows[-1]["steps"], "2 to 4")

    def test_a_mesh_of_some_ranks(self):
        codes, said, (code, _, _) = self.ran("mesh-own")
        self.assertEqual(codes, [0, 0], said)
        for text in said:
            self.assertRegex(text, r"0.weight is distributed as .+ over 1 of 2 ranks; record data parallelism over all")
        self.assertEqual(code, 2)

    def test_two_meshes_of_all_ranks(self):
        codes, said, (code, text, rows) = self.ran("mesh-all")
        self.assertEqual((codes, code), ([0, 0], 0), (said, text))
        self.assertEqual(rows[-1]["steps"], "4")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        unittest.main()
