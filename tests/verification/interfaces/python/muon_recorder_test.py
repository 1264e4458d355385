"""zproof.torch.record of torch.optim.Muon beside AdamW: right trainings, and trainings with one patched mistake.

muon_recorder_test.py rank KIND FOLDER RANK WORLD    one rank of a training of Ranks
"""

import contextlib
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import recorded_run
from recorder_limits_test import PROGRAM, judged

import zproof

try:
    import torch
    from torch import nn
    muon_module = importlib.import_module("torch.optim._muon")
except ImportError:  # PyTorch 2.8 has no Muon
    torch = None

STEPS = 4


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 24), nn.LayerNorm(24), nn.Tanh(), nn.Linear(24, 12))


def optimizers_of(model, **words):
    matrices = [one for one in model.parameters() if one.ndim == 2]
    others = [one for one in model.parameters() if one.ndim != 2]
    return [torch.optim.Muon(matrices, lr=0.02, **words), torch.optim.AdamW(others, lr=1e-3)]


def train(model, optimizers, recorder, rank=0, between=lambda one: None):
    """Parameters of this rank at the end."""
    with recorder:
        for step in range(STEPS):
            for one in optimizers:
                one.zero_grad()
            for micro in range(2):
                x = torch.randn(16, 10, generator=torch.Generator().manual_seed(100 * rank + 10 * step + micro))
                (model(x) - 1).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            for one in optimizers:
                one.step()
                between(one)
    return [getattr(one, "_local_tensor", one).detach().clone() for one in model.parameters()]


def newton_schulz(change):
    original = muon_module._zeropower_via_newtonschulz if torch else None
    return {"_zeropower_via_newtonschulz": lambda *arguments: change(original, *arguments)}


def adjusted(change):
    original = muon_module._adjust_lr if torch else None
    return {"_adjust_lr": lambda lr, name, shape: change(original, lr, name, shape)}


def single(change):
    """torch.optim.Muon with the direction, the factor of the parameter or the momentum of change(name, default, ...)."""
    def step(params, grads, buffers, *, lr, weight_decay, momentum, nesterov, ns_coefficients, ns_steps, eps, adjust_lr_fn, **_):
        for p, g, m in zip(params, grads, buffers):
            if not change("momentum", m, g, momentum):
                m.lerp_(g, 1 - momentum)
            taken = change("direction", m, g, momentum)
            taken = g.lerp(m, momentum) if taken is None else taken
            rate = muon_module._adjust_lr(lr, adjust_lr_fn, p.shape)
            decayed = change("decay", lr, rate, None)
            p.mul_(1 - (lr if decayed is None else decayed) * weight_decay)
            p.add_(muon_module._zeropower_via_newtonschulz(taken, ns_coefficients, ns_steps, eps), alpha=-rate)
    return {"_single_tensor_muon": step}


def only(wanted, function):
    return single(lambda name, *values: function(*values) if name == wanted else None)


def heavy_ball(m, g, mu):
    return m.mul_(mu).add_(g) is m


#: patches of torch.optim._muon, and the hint of the first wrong step
MISTAKES = {
    "slices": (lambda: newton_schulz(lambda ns, g, *more: torch.cat([ns(part, *more) for part in g.chunk(2)])),
               "as if Newton-Schulz took 2 parts of the rows of each matrix by itself"),
    "4 steps": (lambda: newton_schulz(lambda ns, g, c, steps, eps: ns(g, c, steps - 1, eps)), "as if Newton-Schulz had 4 steps"),
    "eps": (lambda: newton_schulz(lambda ns, g, c, steps, eps: ns(g, c, steps, 1.0)), "as if eps of the norm were 1"),
    "clip": (lambda: newton_schulz(lambda ns, *given: ns(*given) * 0.158), "as if the updates were multiplied by 0.158"),
    "no scale": (lambda: adjusted(lambda _, lr, *more: lr), "as if the scale were none"),
    "scale of a shard": (lambda: adjusted(lambda f, lr, name, shape: f(lr, name, (shape[0] // 2, shape[1]))),
                         "as if the scale were that of 1/2 of the rows"),
    "no decay": (lambda: only("decay", lambda *_: 0.0), "as if the decay were none"),
    "scaled decay": (lambda: only("decay", lambda lr, rate, _: rate), "as if the decay were lr*z*wd"),
    "momentum": (lambda: only("momentum", heavy_ball), "as if the momentum were that of heavy ball"),
    # From the second step on: the momentum of the first has the direction of the gradient.
    "no Nesterov": (lambda: only("direction", lambda m, g, mu: m), "as if nesterov were off"),
}


@unittest.skipIf(torch is None, "torch.optim.Muon is not here")
@unittest.skipIf(PROGRAM is None, "ZP_PROGRAM is not set")
class OneProcess(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def recorded(self, name, patches=None, between=lambda one: None, **words):
        with mock.patch.multiple(muon_module, **patches) if patches else contextlib.nullcontext():
            def run(record):
                model = network()
                optimizers = optimizers_of(model, **words)
                recorder = record(optimizers, model) if record else contextlib.nullcontext()
                return train(model, optimizers, recorder, between=between)

            recorded = run(lambda optimizers, model: zproof.torch.record(optimizers, model, self.folder / name))
            self.assertTrue(all(map(torch.equal, recorded, run(None))))
        return judged(self.folder / name)

    def test_right_trainings(self):
        for name, words in {"default": {}, "plain": {"nesterov": False, "weight_decay": 0.0},
                            "rms": {"adjust_lr_fn": "match_rms_adamw"}, "unclamped": {"adjust_lr_fn": "spectral_unclamped"},
                            "steps": {"ns_steps": 3}, "large eps": {"eps": 0.01},
                            "at once": {"between": lambda one: one.zero_grad()}}.items():
            with self.subTest(name):
                code, text, rows = self.recorded(name, **words)
                self.assertEqual(code, 0, text)
                self.assertEqual({row["update"] for row in rows}, {"named"}, text)
                self.assertIn("muon: named torch-muon", text)
                _, _, metadata = recorded_run.read(self.folder / name / f"step{STEPS:06d}.rank0.safetensors")
                self.assertEqual([group["rule"] for group in metadata["groups"]], ["muon", "adamw"])
                self.assertEqual({one["t"] for one in metadata["parameters"]}, {STEPS})

    def test_wrong_trainings(self):
        for name, (patches, hint) in MISTAKES.items():
            with self.subTest(name):
                code, text, rows = self.recorded(name, patches())
                self.assertEqual(code, 1, text)
                wrong = {phase for row in rows for phase, verdict in row.items() if verdict == "WRONG"}
                self.assertEqual(wrong, {"update"}, text)
                self.assertEqual(rows[-1]["update"], "WRONG", text)
                self.assertRegex(text, "hint +" + re.escape(hint))

    def test_polynomials_that_have_no_name(self):
        code, text, rows = self.recorded("other", ns_coefficients=(3.0, -4.0, 2.0))
        self.assertEqual(code, 0, text)
        self.assertIn("not recorded: the rule of 0.weight", text)

    def assert_off(self, reason, loop):
        model = network()
        optimizers = optimizers_of(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with zproof.torch.record(optimizers, model, self.folder / "off"):
                loop(model, optimizers)
        self.assertEqual([reason in str(one.message) for one in caught if "zproof" in str(one.message)], [True])

    def test_no_optimizers(self):
        with self.assertRaisesRegex(ValueError, "optimizer is an empty list"):
            zproof.torch.record([], network(), self.folder)

    def test_several_optimizers_that_make_no_step_together(self):
        def loss(model):
            return model(torch.ones(2, 10)).square().mean()

        def alternating(model, optimizers):
            for _ in range(2):
                loss(model).backward()
                optimizers[0].step()

        def scaled(model, optimizers):
            scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
            scaler.scale(loss(model)).backward()
            for one in optimizers:
                scaler.step(one)
            scaler.update()

        self.assert_off("makes a second step before another optimizer made one", alternating)
        self.assert_off("a GradScaler skips the step of each optimizer by itself", scaled)


def rank_main(kind, folder, rank, world):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    model = network()
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for module in (model[0], model[3], model):
            fully_shard(module)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    optimizers = optimizers_of(model)
    train(model, optimizers, zproof.torch.record(optimizers, model, folder + "/run"), rank)
    torch.distributed.destroy_process_group()


@unittest.skipIf(torch is None, "torch.optim.Muon is not here")
@unittest.skipIf(PROGRAM is None, "ZP_PROGRAM is not set")
class Ranks(unittest.TestCase):
    def test_two_ranks(self):
        for kind in ("ddp", "fsdp"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                ranks = [subprocess.Popen([sys.executable, __file__, "rank", kind, folder, str(rank), "2"],
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
                said = [rank.communicate(timeout=200)[0] for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
                code, text, rows = judged(folder + "/run")
                self.assertEqual(code, 0, (said, text))
                self.assertEqual({row["update"] for row in rows}, {"named"}, text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        unittest.main()
