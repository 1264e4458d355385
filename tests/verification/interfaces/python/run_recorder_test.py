"""zproof.torch.record: recordings of real trainings over gloo against an undistributed model, and what it refuses."""

import contextlib
import copy
import functools
import importlib
import io
import itertools
import math
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import recorded_run
from recorded_run import DECAY, KINDS, LIMIT, LR, MAX_NORM, MICRO, STEPS
from recorder_limits_test import PROGRAM, judged
from support import one_sentence

import zproof

try:
    import torch
except ImportError:
    torch = None

KEYS = {"version", "program", "rank", "world", "step", "micro_batches", "reduction", "loss_scale", "applied", "groups",
        "parameters"}
MAY = {"max_norm", "norm", "norm_type", "clip_eps"}
NAMES = ["first.weight", "second.weight", "first.bias", "second.bias"]  # in the order of the param groups
ADAM = ("master", "exp_avg", "exp_avg_sq")


def elements(blocks):
    return np.concatenate([np.arange(start, start + length) for start, length in blocks] or [np.zeros(0, int)])


class Step:
    """The files of all ranks, with the tensors of one parameter put together."""

    def __init__(self, folder, step, world):
        self.ranks = [recorded_run.read(f"{folder}/step{step:06d}.rank{rank}.safetensors") for rank in range(world)]
        self.metadata = [metadata for _, _, metadata in self.ranks]

    def of(self, rank, kind, name):
        return self.ranks[rank][0][f"{kind}.{name}"]

    def whole(self, kind, name):
        """Elements by owner; NaN where there is none."""
        shape = self.parameter(0, name)["shape"]
        values = np.full(math.prod(shape), np.nan, np.float32)
        for rank, (tensors, _, _) in enumerate(self.ranks):
            parameter = self.parameter(rank, name)
            if parameter["owned"]:
                values[elements(parameter["owned"])] = tensors[f"{kind}.{name}"]
        return values

    def parameter(self, rank, name):
        return next(one for one in self.metadata[rank]["parameters"] if one["name"] == name)


class Shadow:
    """Undistributed: gradients of every rank and micro-batch from recorded parameters."""

    def __init__(self, masters, bf16):
        self.network = recorded_run.model()
        self.bf16 = bf16
        with torch.no_grad():
            for name, values in masters.items():
                parameter = self.network.get_parameter(name)
                parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))

    def gradients(self, rank, step, micro):
        network = self.network
        self.network.zero_grad()
        if self.bf16:
            network = copy.deepcopy(network).to(torch.bfloat16)
            loss = (network(recorded_run.batch(rank, step, micro).bfloat16()) - 1).square().mean() / MICRO
            loss.backward()
        else:
            recorded_run.loss_of(network, rank, step, micro).backward()
        return {name: network.get_parameter(name).grad.float().reshape(-1).numpy().copy() for name in NAMES}


@unittest.skipIf(torch is None, "torch is not here")
class Recordings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for world in KINDS:
            folder = cls.folder / str(world)
            folder.mkdir()
            ranks = [subprocess.Popen([sys.executable, recorded_run.__file__, str(folder), str(rank), str(world)],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(world)]
            for rank in ranks:
                said, _ = rank.communicate(timeout=300)
                if rank.returncode or "zproof records no" in said:
                    raise AssertionError(said)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def each(self, judged):
        for world, kinds in KINDS.items():
            for kind in kinds:
                with self.subTest(kind, world=world):
                    judged(self.folder / str(world) / kind, kind, world)

    def test_the_training_has_the_same_bits(self):
        def judged(folder, kind, world):
            for rank in range(world):
                self.assertEqual(pathlib.Path(f"{folder}.rank{rank}.json").read_text(encoding="utf-8"), "true")

        self.each(judged)

    @unittest.skipIf(PROGRAM is None, "ZP_PROGRAM is not set")
    def test_judge_run_finds_every_step_right(self):
        def check(folder, kind, world):
            code, text, rows = judged(folder)
            self.assertEqual(code, 0, text)
            self.assertTrue(rows[-1]["steps"].endswith(str(STEPS)), text)
            for row in rows:
                steps = row.pop("steps")
                absent = {phase for phase, verdict in row.items() if verdict == "-"}
                expected = {"state"} if steps == "1" else set()
                if kind == "ddp-scaler-fused":
                    expected |= {"norm"}
                if "scaler" in kind and steps == "2":
                    expected |= {"norm", "clip", "update"}
                if kind.startswith("fsdp") and steps == str(STEPS):
                    expected |= {"cast"}
                self.assertEqual(absent, expected, text)

        self.each(check)

    def test_files_follow_the_page(self):
        def judged(folder, kind, world):
            names = {path.name for path in folder.iterdir()}
            self.assertEqual(names, {f"step{step:06d}.rank{rank}.safetensors" for step in range(1, STEPS + 1)
                                     for rank in range(world)})
            for step in range(1, STEPS + 1):
                recorded = Step(folder, step, world)
                for rank, (tensors, formats, metadata) in enumerate(recorded.ranks):
                    self.assertLessEqual(KEYS, set(metadata))
                    self.assertLessEqual(set(metadata), KEYS | MAY)
                    self.assertEqual([metadata[name] for name in ("version", "rank", "world", "step", "micro_batches")],
                                     [1, rank, world, step, MICRO])
                    self.assertEqual([one["name"] for one in metadata["parameters"]], NAMES)
                    self.assertEqual([one["group"] for one in metadata["parameters"]], [0, 0, 1, 1])
                    self.assertEqual([one["weight_decay"] for one in metadata["groups"]], [DECAY, 0.0])
                    self.assert_tensors(tensors, formats, metadata, kind)
                self.assert_one_owner(recorded, world)

        self.each(judged)

    def assert_tensors(self, tensors, formats, metadata, kind):
        state = ("master", "momentum_buffer") if kind == "plain-sgd" else ADAM
        expected = {}
        for one in metadata["parameters"]:
            owned, leaf = (sum(length for _, length in blocks) for blocks in (
                one["owned"], one.get("leaf", [[0, math.prod(one["shape"])]])))
            expected |= {f"leaf.{micro}.{one['name']}": leaf for micro in range(MICRO)} | {"model." + one["name"]: leaf}
            if one["owned"]:
                expected |= {f"{name}.{one['name']}": owned for name in ("reduced", "before.grad")}
                expected |= {f"{when}.{name}.{one['name']}": owned for when in ("before", "after") for name in state
                             if not (when == "before" and name == "momentum_buffer" and metadata["step"] == 1)}
        if kind.startswith("fsdp") and metadata["step"] == STEPS:
            expected = {name: numel for name, numel in expected.items() if not name.startswith("model.")}
        self.assertEqual({name: tensor.size for name, tensor in tensors.items()}, expected)
        for name, form in formats.items():
            self.assertEqual(form, "BF16" if kind.startswith("fsdp-bf16") and name.startswith(("leaf.", "model."))
                             else "F32", name)

    def assert_one_owner(self, recorded, world):
        for name in NAMES:
            parameters = [recorded.parameter(rank, name) for rank in range(world)]
            owned = [elements(one["owned"]) for one in parameters]
            leaf = elements(parameters[0].get("leaf", [[0, math.prod(parameters[0]["shape"])]]))
            if parameters[0]["replicated"]:
                for one in owned:
                    np.testing.assert_array_equal(one, leaf)
            else:
                np.testing.assert_array_equal(np.sort(np.concatenate(owned)), leaf)

    def test_numbers_are_those_of_an_undistributed_model(self):
        def judged(folder, kind, world):
            for step in range(1, STEPS + 1):
                recorded = Step(folder, step, world)
                metadata = recorded.metadata[0]
                sampled = any("leaf" in one for one in metadata["parameters"])
                self.assertEqual(sampled, kind == "ddp")
                self.assertEqual(metadata["applied"], not ("scaler" in kind and step == 2))
                self.assertEqual(metadata["loss_scale"], 1.0 if "scaler" not in kind else 1024.0 if step < 3 else 512.0)
                if not sampled and metadata["applied"]:
                    self.assert_numbers(recorded, kind, world, step)
                elif not metadata["applied"]:
                    for name, state in itertools.product(NAMES, ADAM):
                        np.testing.assert_array_equal(recorded.whole("before." + state, name),
                                                      recorded.whole("after." + state, name))

        self.each(judged)

    def assert_numbers(self, recorded, kind, world, step):
        scale = recorded.metadata[0]["loss_scale"]
        shadow = Shadow({name: recorded.whole("before.master", name) for name in NAMES}, kind.startswith("fsdp-bf16"))
        total = {name: np.zeros(recorded.whole("reduced", name).size) for name in NAMES}
        for rank, micro in itertools.product(range(world), range(MICRO)):
            gradients = shadow.gradients(rank, step, micro)
            for name in NAMES:
                leaf = recorded.of(rank, f"leaf.{micro}", name)
                # Tells recorded tensors from others; the proved bounds are those of judge-run.
                np.testing.assert_allclose(leaf, gradients[name] * scale, rtol=2e-2 if shadow.bf16 else 1e-5, atol=1e-6 * scale)
                total[name] += leaf.astype(np.float64)
        reduced = {name: recorded.whole("reduced", name) for name in NAMES}
        for name in NAMES:
            np.testing.assert_allclose(reduced[name], total[name] / world, rtol=1e-5, atol=1e-8 * scale
                                       if kind != "fsdp-bf16-reduce" else 2e-2 * np.abs(total[name]).max())
        norm = math.sqrt(sum(np.square(values.astype(np.float64)).sum() for values in reduced.values())) / scale
        clipped = kind != "ddp-scaler-fused"
        coefficient = min(1.0, MAX_NORM / (norm + 1e-6)) if clipped else 1.0
        squares = [sum(one.get("sum_squares", 0.0) for one in metadata["parameters"]) for metadata in recorded.metadata]
        one_copy = squares[0] if recorded.metadata[0]["parameters"][0]["replicated"] else sum(squares)
        self.assertAlmostEqual(math.sqrt(one_copy) / scale / norm, 1, 9)
        for metadata in recorded.metadata:
            self.assertEqual("norm" in metadata, clipped)
            if clipped:
                self.assertAlmostEqual(metadata["norm"] / norm, 1, 5)
                self.assertEqual((metadata["max_norm"], metadata["norm_type"]), (MAX_NORM, 2))
        for number, name in enumerate(NAMES):
            grad = recorded.whole("before.grad", name)
            np.testing.assert_allclose(grad, reduced[name] / scale * coefficient, rtol=1e-5, atol=1e-9)
            self.assert_update(recorded, kind, name, grad, DECAY if number < 2 else 0.0)
            master = recorded.whole("after.master", name)
            for rank in range(world if not (kind.startswith("fsdp") and step == STEPS) else 0):
                model = recorded.of(rank, "model", name)
                expected = torch.from_numpy(master).bfloat16().float().numpy() if shadow.bf16 else master
                np.testing.assert_array_equal(model, expected)

    def assert_update(self, recorded, kind, name, grad, decay):
        t = recorded.parameter(0, name)["t"]
        skipped = recorded.metadata[0]["step"] - t
        self.assertEqual(skipped, 1 if "scaler" in kind and recorded.metadata[0]["step"] > 2 else 0)
        parameter = torch.nn.Parameter(torch.from_numpy(recorded.whole("before.master", name)).double())
        parameter.grad = torch.from_numpy(grad).double()
        if kind == "plain-sgd":
            optimizer = torch.optim.SGD([parameter], lr=LR, weight_decay=decay, momentum=0.9)
            if t > 1:
                optimizer.state[parameter] = {"momentum_buffer": torch.from_numpy(
                    recorded.whole("before.momentum_buffer", name)).double()}
        else:
            optimizer = torch.optim.AdamW([parameter], lr=LR, weight_decay=decay)
            optimizer.state[parameter] = {"step": torch.tensor(t - 1.0), **{state: torch.from_numpy(
                recorded.whole("before." + state, name)).double() for state in ADAM[1:]}}
        optimizer.step()
        np.testing.assert_allclose(recorded.whole("after.master", name), parameter.detach().numpy(), rtol=1e-5, atol=1e-7)
        for state in ("momentum_buffer",) if kind == "plain-sgd" else ADAM[1:]:
            values = optimizer.state[parameter][state].numpy()
            np.testing.assert_allclose(recorded.whole("after." + state, name), values, rtol=1e-5,
                                       atol=1e-7 * np.abs(values).max())

    def test_samples_are_the_same_on_every_rank(self):
        for world in (2, 3):
            recorded = Step(self.folder / str(world) / "ddp", 3, world)
            blocks = [recorded.parameter(rank, "first.weight")["leaf"] for rank in range(world)]
            self.assertEqual(blocks, blocks[:1] * world)
            self.assertEqual(sum(length for _, length in blocks[0]), LIMIT)
            self.assertEqual(sum(blocks[0][-1]), 66)
            squares = recorded.parameter(0, "first.weight")["sum_squares"]
            self.assertGreater(squares, float(np.square(recorded.of(0, "reduced", "first.weight").astype(float)).sum()))


def training(change=lambda network, optimizer: None, network=None, steps=3, optimizer_of=None, **words):
    """Parameters at the end of a training on one rank, with a recorder if a folder is given."""
    network = network() if network else recorded_run.model()
    optimizer = (optimizer_of or functools.partial(torch.optim.AdamW, lr=LR))(
        [one for one in network.parameters() if one.requires_grad])
    recorder = zproof.torch.record(optimizer, network, **words) if words else None
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        change(network, optimizer)
        loss = recorded_run.loss_of(network, 0, step, 0)
        loss.backward()
        optimizer.step()
    if recorder:
        recorder.close()
    return [one.detach().clone() for one in network.parameters()]


def embedding():
    class Sparse(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.table = torch.nn.Embedding(5, 3, sparse=True)

        def forward(self, x):
            return self.table(x.abs().long() % 5)

    return Sparse()


def tied():
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(6, 6, bias=False), torch.nn.Linear(6, 6, bias=False))
    network[1].weight = network[0].weight
    network.register_parameter("scale", torch.nn.Parameter(torch.tensor(2.0)))
    network.register_forward_hook(lambda module, arguments, output: output * module.scale)
    return network


@unittest.skipIf(torch is None, "torch is not here")
class OneProcess(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "recording"

    def files(self):
        return sorted(path.name[:10] for path in self.folder.glob("*"))

    def assert_goes_on(self, reason, kept=(), **words):
        """The training is the one without a recorder, after one warning."""
        folder = words.pop("folder", self.folder)
        without = training(**words)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorded = training(**words, folder=folder)
        self.assertTrue(all(map(torch.equal, recorded, without)))
        said = [str(one.message) for one in caught if "zproof" in str(one.message)]
        self.assertEqual(len(said), 1, said)
        self.assertIn(reason, said[0])
        self.assertEqual(self.files(), list(kept))

    def test_switches_itself_off(self):
        self.assert_goes_on("sparse", network=embedding, optimizer_of=functools.partial(torch.optim.SGD, lr=LR))
        taken = self.folder.parent / "file"
        taken.write_text("", encoding="utf-8")
        self.assert_goes_on("FileExistsError", folder=taken)

        def closure(network, optimizer):
            optimizer.step(lambda: 0.0)

        self.assert_goes_on("closure", change=closure)

    def test_formats_that_are_not_recorded(self):
        for dtype in ("complex64", "float64"):
            network = torch.nn.Module()
            network.weight = torch.nn.Parameter(torch.ones(2, dtype=getattr(torch, dtype)))
            with self.assertWarnsRegex(RuntimeWarning, f"no steps after 0: weight is {dtype}; fp32, bf16 and fp16"):
                zproof.torch.record(torch.optim.AdamW(network.parameters()), network, self.folder)

    def test_a_full_disk(self):
        home = importlib.import_module("zproof.run_recorder")._zproof
        write, written = home.write_tensors, []

        def full(path, *arguments):
            if len(written) == 1:
                raise OSError(28, "No space left on device")
            written.append(path)
            write(path, *arguments)

        home.write_tensors = full
        self.addCleanup(setattr, home, "write_tensors", write)
        self.assert_goes_on("No space left", kept=["step000001"])

    def test_warnings_as_errors(self):
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()) as said:
            warnings.simplefilter("error")
            training(network=embedding, optimizer_of=functools.partial(torch.optim.SGD, lr=LR), folder=self.folder)
        self.assertIn("the gradient of table.weight is sparse", said.getvalue())

    def test_a_folder_with_another_recording(self):
        training(folder=self.folder)
        self.assert_goes_on("choose a new folder", kept=["step000001", "step000002", "step000003"])
        training(folder=self.folder, first_step=4, steps=1)
        self.assertEqual(self.files()[-1], "step000004")

    def test_tied_and_0_dimensional_parameters(self):
        recorded, without = training(network=tied, folder=self.folder), training(network=tied)
        self.assertTrue(all(map(torch.equal, recorded, without)))
        tensors, _, metadata = recorded_run.read(self.folder / "step000002.rank0.safetensors")
        self.assertEqual([(one["name"], one["shape"]) for one in metadata["parameters"]], [("scale", []), ("0.weight", [6, 6])])
        for one in ("scale", "0.weight"):
            np.testing.assert_array_equal(tensors["leaf.0." + one], tensors["reduced." + one])
        self.assertEqual(len(self.files()), 3)

    def test_every_other_step_and_discarded_gradients(self):
        def discarded(network, optimizer):
            recorded_run.loss_of(network, 0, 9, 9).backward()
            optimizer.zero_grad()

        training(change=discarded, steps=4, folder=self.folder, every=3)
        self.assertEqual(self.files(), ["step000001", "step000004"])
        tensors, _, metadata = recorded_run.read(self.folder / "step000004.rank0.safetensors")
        self.assertEqual([metadata["micro_batches"], metadata["parameters"][0]["t"]], [1, 4])
        np.testing.assert_array_equal(tensors["leaf.0.first.weight"], tensors["reduced.first.weight"])

    def test_copies_of_the_model_record_nothing(self):
        network = recorded_run.model()
        optimizer = torch.optim.AdamW(network.parameters(), lr=LR)
        clip = torch.nn.utils.clip_grad._clip_grads_with_norm_
        with zproof.torch.record(optimizer, network, self.folder) as recorder:
            recorded_run.loss_of(network, 0, 1, 0).backward()
            optimizer.step()
            for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(list(network._forward_pre_hooks.values())))[0]):
                other(torch.ones(6, 6)) if isinstance(other, torch.nn.Module) else other(network, ())
            self.assertEqual(self.files(), [])
        self.assertFalse(recorder.active)
        self.assertEqual(self.files(), ["step000001"])
        self.assertIs(torch.nn.utils.clip_grad._clip_grads_with_norm_, clip)
        self.assertNotIn("zero_grad", vars(optimizer))
        self.assertFalse(network._forward_pre_hooks or network.first.weight._backward_hooks)

    def test_clips_of_the_program_itself(self):
        network = recorded_run.model()
        optimizer = torch.optim.AdamW(network.first.parameters(), lr=LR)
        with zproof.torch.record(optimizer, network, self.folder, max_norm=0.25, reduction="sum") as recorder:
            recorded_run.loss_of(network, 0, 1, 0).backward()
            recorder.reduced()
            network.first.bias.grad *= 0.5
            optimizer.step()
        tensors, _, metadata = recorded_run.read(self.folder / "step000001.rank0.safetensors")
        self.assertEqual([metadata["max_norm"], metadata["reduction"], "norm" in metadata], [0.25, "sum", False])
        np.testing.assert_array_equal(tensors["before.grad.first.bias"], tensors["reduced.first.bias"] * np.float32(0.5))

    def test_a_sample_of_a_shard(self):
        home = importlib.import_module("zproof.recorded_parameter")
        whole = torch.arange(60.0)
        owned = home.blocks_of_shard((4, 15), (4, 5), (0, 5))
        one = home.RecordedParameter("w", (4, 15), 0, None, owned, [[7, 2], [18, 4], [33, 20]], False, None)
        self.assertEqual(one.recorded, [[7, 2], [20, 2], [35, 5], [50, 3]])
        self.assertEqual(one.of_shard(whole.reshape(4, 15)[:, 5:10]).tolist(), whole[elements(one.recorded)].tolist())
        self.assertEqual(one.of_whole(whole).tolist(), whole[elements(one.sample)].tolist())

    def test_a_subclass_that_calls_the_step_of_its_base(self):
        class Twice(torch.optim.AdamW):
            def step(self):
                with torch.no_grad():
                    for parameter in self.param_groups[0]["params"]:
                        parameter.mul_(0.5)
                super().step()

        torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))])  # its step has hooks of its own from now on
        without = training(optimizer_of=functools.partial(Twice, lr=LR))
        recorded = training(optimizer_of=functools.partial(Twice, lr=LR), folder=self.folder)
        self.assertTrue(all(map(torch.equal, recorded, without)))
        self.assertEqual(self.files(), ["step000001", "step000002", "step000003"])
        first, second = (recorded_run.read(self.folder / f"step{step:06d}.rank0.safetensors")[0] for step in (1, 2))
        np.testing.assert_array_equal(first["after.master.first.bias"], second["before.master.first.bias"])

    def test_compiled_models(self):
        def compiled():
            return torch.compile(recorded_run.model(), backend="aot_eager")

        def compiled_in_place():
            network = recorded_run.model()
            network.compile(backend="aot_eager")
            return network

        for network in (compiled, compiled_in_place):
            folder = self.folder / network.__name__
            recorded, without = training(network=network, folder=folder), training(network=network)
            self.assertTrue(all(map(torch.equal, recorded, without)))
            self.assertEqual(len(list(folder.glob("step*"))), 3)
            tensors, _, metadata = recorded_run.read(folder / "step000002.rank0.safetensors")
            self.assertEqual(metadata["parameters"][0]["name"], "first.weight")
            for kind in ("leaf.0", "reduced", "model"):
                self.assertIn(kind + ".first.weight", tensors)

    def test_a_step_that_raises(self):
        class Once(torch.optim.AdamW):
            def step(self):
                if not self.state:
                    self.state[None] = {}
                    raise ArithmeticError
                super().step()

        def attempt(network, optimizer):
            if not optimizer.state:
                recorded_run.loss_of(network, 0, 9, 0).backward()
                with contextlib.suppress(ArithmeticError):
                    optimizer.step()
                optimizer.zero_grad()

        training(optimizer_of=functools.partial(Once, lr=LR), change=attempt, folder=self.folder)
        tensors, _, metadata = recorded_run.read(self.folder / "step000001.rank0.safetensors")
        self.assertEqual([metadata["micro_batches"], metadata["step"]], [1, 1])
        np.testing.assert_array_equal(tensors["leaf.0.first.bias"], tensors["reduced.first.bias"])
        np.testing.assert_array_equal(tensors["before.grad.first.bias"], tensors["reduced.first.bias"])

    def test_refused_in_one_sentence(self):
        for words, reason in (({"every": 0}, "every is 0"), ({"reduction": "max"}, "reduction is 'max'"),
                              ({"limit": 0}, "limit is 0"), ({"first_step": 0}, "first_step is 0")):
            with one_sentence(self, ValueError, reason):
                zproof.torch.record(None, None, self.folder, **words)


class Blocks(unittest.TestCase):
    def test_a_rectangle_of_a_tensor(self):
        parameter = importlib.import_module("zproof.recorded_parameter")
        shape = (4, 3, 5)
        whole = np.arange(60).reshape(shape)
        for offset, size in (((0, 0, 0), shape), ((1, 0, 0), (2, 3, 5)), ((0, 1, 0), (4, 2, 5)), ((1, 2, 1), (2, 1, 3)),
                             ((4, 0, 0), (0, 3, 5))):
            blocks = parameter.blocks_of_shard(shape, size, offset)
            part = whole[tuple(slice(begin, begin + count) for begin, count in zip(offset, size))]
            np.testing.assert_array_equal(elements(blocks), part.reshape(-1))
        self.assertEqual(parameter.blocks_of_shard((), (), ()), [[0, 1]])
        self.assertEqual(parameter.blocks_of_shard(shape, (2, 3, 5), (1, 0, 0)), [[15, 30]])

    def test_samples(self):
        sample = importlib.import_module("zproof.recorded_parameter").sampled_blocks
        self.assertEqual(sample("w", 100, 100, 0), [[0, 100]])
        self.assertEqual(sample("w", 0, 100, 0), [])
        blocks = sample("w", 1_000_003, 65536, 7)
        self.assertEqual(blocks, sample("w", 1_000_003, 65536, 7))
        self.assertNotEqual(blocks, sample("w", 1_000_003, 65536, 8))
        self.assertEqual(len(np.unique(elements(blocks))), 65536)
        self.assertEqual(sum(blocks[-1]), 1_000_003)


class WithoutTorch(unittest.TestCase):
    @unittest.skipIf(torch is not None, "torch is here")
    def test_says_so(self):
        with one_sentence(self, ImportError, "torch is not installed"):
            importlib.import_module("zproof.torch").record(None, None, "recording")


if __name__ == "__main__":
    unittest.main()
