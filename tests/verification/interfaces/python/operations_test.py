"""zproof.torch.operations and zeroproof attribute: drifts of known causes in a small training, and trainings without one."""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

from support import one_sentence

try:
    import torch
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).parent
# A change of the training, the verdict of old against new, and a part of its sentence.
DRIFTS = [
    ("threads", "drift", "explained by threads 1 -> 2"),
    ("oneDNN off", "drift", "explained by oneDNN on -> off"),
    ("flushed denormals", "drift", "explained by flushes denormals off -> on"),
    ("flash attention off", "drift", "explained by flash attention on -> off"),
    ("autocast", "drift", "explained by autocast on CPU off -> bfloat16"),
    ("mm and add for addmm", "regression", "operation replaced: aten.addmm -> aten.mm + aten.add"),
    ("sum in another order", "regression", "operation replaced: aten.addmm -> aten.mul + aten.sum + aten.add"),
    ("layer norm by hand", "regression", "operation replaced: aten.native_layer_norm -> aten.mean + aten.sub + aten.var"),
    ("attention by hand", "regression", "operation replaced: aten._scaled_dot_product_flash_attention_for_cpu -> "),
    ("fused optimizer", "regression", "-> aten._foreach_add_ + aten._fused_adamw_"),
    ("foreach optimizer", "regression", "-> aten._foreach_add_"),
    ("gelu", "regression", "argument approximate of aten.gelu: (default) -> 'tanh'"),
    ("dropout", "regression", "argument p of aten.bernoulli_: 0.9 -> 0.8"),
    ("clip limit", "regression", "argument other of aten.mul: 1.0 -> 0.9"),
    ("sum in fp64", "regression", "aten._to_copy"),
    ("one ulp in forward", "regression", "operation inserted: aten.mul"),
    ("one ulp in backward", "regression", "operation inserted: aten.mul"),
    ("one ulp in the optimizer", "regression", "argument value of aten.addcdiv_: -0.01"),
    ("extra random numbers", "regression", "operation inserted: aten.rand"),
    ("numpy writes a parameter", "regression", "by something that is no recorded operation"),
    ("data order", "inputs", "in another order: it is OLD's at operation #"),
    ("other data", "inputs", "other inputs: data: input indices of aten.embedding"),
    ("initial parameter", "inputs", "other inputs: initial parameters: input "),
    ("seed", "inputs", "other inputs: seed 1 -> 2"),
]
ORIGINS = {"one ulp in backward": ("backward", "grad * ONE_ULP"), "one ulp in the optimizer": ("optimizer", "optimizer.step()"),
           "gelu": ("forward", "F.gelu(hidden"), "dropout": ("forward", "F.dropout(")}


@unittest.skipUnless(torch, "torch is not installed")
class Operations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.record("old", "again", "deterministic algorithms", *(name for name, _, _ in DRIFTS))

    @classmethod
    def record(cls, *names, **environment):
        done = subprocess.run([sys.executable, HERE / "drifting_training.py", cls.folder, *names], capture_output=True,
                              text=True, env={**os.environ, **environment})
        assert done.returncode == 0 and "zproof" not in done.stderr, done.stderr

    def file(self, name):
        return self.folder / f"{name.replace(' ', '-')}.operations"

    def attributed(self, old, new, code=1):
        """The JSON of `zeroproof attribute`, and its text."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-m", "zproof", "attribute", old, new, "--json", report], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        found = json.loads(report.read_text())
        self.assertEqual(found["equal"], code == 0)
        self.assertIn(found["sentence"] + "\n", done.stdout)
        return found, done.stdout

    # -- causes ----------------------------------------------------------------------------------------------------

    def test_every_drift_is_explained_by_its_cause(self):
        for name, verdict, says in DRIFTS:
            with self.subTest(name):
                found, text = self.attributed(self.file("old"), self.file(name))
                self.assertEqual((found["verdict"], says in found["sentence"]), (verdict, True), text)
                rank = found["ranks"][0]
                self.assertGreater(rank["counts"]["agree"], 0)
                if verdict == "inputs":
                    self.assertGreater(rank["counts"]["inherit"], 50)
                if name in ORIGINS:
                    origin = rank["origin"]
                    at = origin["inserted"][0] if origin["inserted"] else origin["new"]
                    self.assertEqual(at["phase"], ORIGINS[name][0])
                    self.assertIn(ORIGINS[name][1], at["line"]["text"])

    def test_the_other_direction_has_the_same_cause(self):
        for name, says in (("threads", "explained by threads 2 -> 1"),
                           ("mm and add for addmm", "operation replaced: aten.mm + aten.add -> aten.addmm")):
            found, text = self.attributed(self.file(name), self.file("old"))
            self.assertIn(says, found["sentence"], text)

    def test_deterministic_algorithms_are_the_cause_of_other_bits(self):
        self.record("scatter", "scatter deterministic")
        found, text = self.attributed(self.file("scatter"), self.file("scatter deterministic"))
        self.assertEqual(found["sentence"], "drift, explained by deterministic algorithms off -> on", text)
        self.assertEqual(found["ranks"][0]["origin"]["new"]["name"], "aten.index_put_.default")

    def test_instruction_set(self):
        if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
            self.skipTest("this processor has no other instruction set")
        self.record("created inside", ATEN_CPU_CAPABILITY="default")
        os.rename(self.file("created inside"), self.file("default"))
        self.record("created inside")
        found, text = self.attributed(self.file("created inside"), self.file("default"))
        self.assertEqual(found["sentence"], "drift, explained by ATEN_CPU_CAPABILITY (none) -> default", text)

    def test_release_of_torch(self):
        other = os.environ.get("ZP_OTHER_TORCH")
        if not other:
            self.skipTest("ZP_OTHER_TORCH names no folder with another release of torch")
        paths = os.pathsep.join(filter(None, [other, os.environ.get("PYTHONPATH")]))
        self.record("created inside", PYTHONPATH=paths)
        os.rename(self.file("created inside"), self.file("other"))
        self.record("created inside")
        found, text = self.attributed(self.file("other"), self.file("created inside"))
        print(found["sentence"])
        self.assertRegex(found["sentence"], r"^drift, explained by torch [\d.+a-z]+ -> " + torch.__version__.replace("+", r"\+")
                         + "$", text)

    # -- no drift --------------------------------------------------------------------------------------------------

    def test_equal_runs_are_equal(self):
        found, text = self.attributed(self.file("old"), self.file("again"), 0)
        self.assertEqual(found["sentence"], "equal", text)
        self.assertEqual(found["ranks"][0]["differences"], [])
        self.assertGreater(found["ranks"][0]["counts"]["agree"], 500)

    def test_a_setting_without_effect_is_no_drift(self):
        found, _ = self.attributed(self.file("old"), self.file("deterministic algorithms"), 0)
        self.assertEqual([one["name"] for one in found["ranks"][0]["differences"]], ["deterministic algorithms"])

    def recorded(self, name, work):
        import zproof

        with zproof.torch.operations(self.file(name)):
            work()
        return [json.loads(line) for line in self.file(name).read_text().splitlines()]

    def test_memory_without_values_is_not_compared(self):
        for name, value in (("first", 1.0), ("second", 2.0)):
            def work(value=value):
                kept = torch.full((1 << 12,), value)
                del kept  # its memory is taken by the next one
                empty = torch.empty(1 << 12)
                (empty + 1).sum()
                empty[:100].copy_(torch.ones(100))
                empty[:100].sum()  # compared
                torch.empty(1 << 12).fill_(3).sum()  # compared

            lines = self.recorded(name, work)
        operations = [line for line in lines if isinstance(line, list)]
        digests = {line[0]: [value[2] for value in line[6] if len(value) > 2] for line in operations}
        self.assertEqual(digests["aten.empty.memory_format"], ["?"])
        self.assertEqual(digests["aten.add.Tensor"], ["?"])
        sums = [line[6][0][2] for line in operations if line[0] == "aten.sum.default"]
        self.assertEqual(sums[0], "?")
        self.assertNotIn("?", sums[1:])
        self.assertEqual(len(sums), 3)
        found, text = self.attributed(self.file("first"), self.file("second"))
        self.assertIn("aten.full", found["sentence"], text)  # and not the first operation on empty memory

    def test_memory_that_is_written_in_parts_has_values(self):
        for middle, expected in ((1, "^[0-9a-f]{16}$"), (2, r"^\?$")):  # 2: a column without values
            def work(middle=middle):
                columns = torch.empty(8, 3)
                columns[:, 0] = torch.arange(8.0)
                columns[:, middle] = 1
                columns[:, 2] = 2
                columns.sum()

            sums = [line[6] for line in self.recorded("parts", work) if isinstance(line, list) and "sum" in line[0]]
            self.assertRegex(sums[0][0][2], expected)

    def test_views_in_place_and_aliases(self):
        def work(value):
            base = torch.arange(24.0).reshape(4, 6)
            view = base.t()[1:3]
            view.mul_(value)
            base.sum()

        self.recorded("aliased", lambda: work(2.0))
        lines = self.recorded("aliased2", lambda: work(3.0))
        operations = [line for line in lines if isinstance(line, list)]
        names = [line[0] for line in operations]
        # The sum reads memory that the operation on the view wrote.
        self.assertEqual(operations[names.index("aten.sum.default")][5][0][3], str(names.index("aten.mul_.Tensor")))
        found, _ = self.attributed(self.file("aliased"), self.file("aliased2"))
        self.assertEqual(found["sentence"], "regression: argument other of aten.mul_: 2.0 -> 3.0")

    def test_digests_are_of_all_bytes(self):
        def last_of(shape, view):
            """Digests of an input that differs in the last bit of its last element."""
            digests = []
            for last in (0.0, 1e-45):
                values = torch.zeros(shape)
                values[(-1,) * len(shape)] = last
                lines = self.recorded("digest", lambda: view(values).exp())
                digests += [line[5][0][2] for line in lines if isinstance(line, list) and line[0] == "aten.exp.default"]
            return digests

        for shape, view in (((100_003,), lambda x: x), ((100_003,), lambda x: x[::2]), ((301, 10), lambda x: x[:, 3:]),
                            ((301, 10), lambda x: x.t()), ((7, 5, 3), lambda x: x.transpose(0, 1)[:, ::2]),
                            ((3,), lambda x: x[-1].expand(5, 4))):
            first, second = last_of(shape, view)
            self.assertNotEqual(first, second, shape)
            self.assertEqual(last_of(shape, view), [first, second])

        def elsewhere(x):
            x[0, 0] = 7  # is not in the view
            return x[1:, 3:]

        self.assertEqual(last_of((301, 10), elsewhere), last_of((301, 10), lambda x: x[1:, 3:]))

    # -- recordings ------------------------------------------------------------------------------------------------

    def test_a_program_that_is_killed_leaves_its_operations(self):
        code = ("import os, signal, torch, zproof\n"
                f"with zproof.torch.operations({str(self.file('killed'))!r}):\n"
                "    x = torch.ones(3)\n"
                "    x + 1\n"
                "    os.kill(os.getpid(), signal.SIGKILL)\n")
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, -signal.SIGKILL)
        lines = self.file("killed").read_text().splitlines()
        self.assertEqual([json.loads(line)[0] for line in lines if line[0] == "["], ["aten.ones.default", "aten.add.Tensor"])
        self.recorded("whole", lambda: (torch.ones(3) + 1).sum())
        found, text = self.attributed(self.file("whole"), self.file("killed"))
        self.assertIn("NEW ends after 2 operations: the program ended before the recording", found["sentence"], text)
        self.attributed(self.file("killed"), self.file("killed"))  # incomplete recordings are never equal

    def test_the_program_has_the_same_bits(self):
        sys.path.insert(0, str(HERE))
        self.addCleanup(sys.path.remove, str(HERE))
        import drifting_training

        losses = drifting_training.train(self.file("watched"))
        import zproof

        with unittest.mock.patch.object(zproof.torch, "operations", lambda _: contextlib.nullcontext()):
            self.assertEqual(drifting_training.train(self.file("unwatched")), losses)

    def test_a_problem_ends_the_recording_and_not_the_program(self):
        import zproof

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with zproof.torch.operations(self.file("broken")) as recorder:
                torch.ones(3)
                recorder._digest = None
                x = torch.ones(3) + 1
        self.assertEqual(x.tolist(), [2, 2, 2])
        self.assertEqual(len(caught), 1)
        self.assertIn("zproof records no operations after 1: TypeError", str(caught[0].message))
        done = subprocess.run([sys.executable, "-m", "zproof", "attribute", self.file("broken"), self.file("broken")],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the recorder stopped: TypeError", done.stdout)

    def test_exceptions_pass(self):
        import zproof

        with self.assertRaisesRegex(RuntimeError, "size"), zproof.torch.operations(self.file("raises")):
            torch.ones(3) + torch.ones(4)
        lines = [json.loads(line) for line in self.file("raises").read_text().splitlines()]
        self.assertEqual(lines[-1], {"end": 2})

    def test_a_file_that_cannot_be_written(self):
        import zproof

        for file, model, kind, says in ((self.folder, None, OSError, "cannot be written"), (5, None, TypeError, "file is int"),
                                        ("x", 5, TypeError, "model is int")):
            with one_sentence(self, kind, says), zproof.torch.operations(file, model):
                self.fail("it was opened")
        recorder = zproof.torch.operations(self.file("once"))
        with recorder:
            torch.ones(1)
        with one_sentence(self, ValueError, "was used already"), recorder:
            self.fail("it was opened")

    def test_ranks(self):
        for wrapper in ("ddp", "fsdp"):
            with self.subTest(wrapper):
                self.compare_ranks(wrapper)

    def compare_ranks(self, wrapper):
        for name, changed in (("ranks", ""), ("ranks2", "1")):
            (self.folder / f"{name}.store").unlink(missing_ok=True)
            processes = [subprocess.Popen([sys.executable, "-c", RANK, str(self.file(name)), changed, wrapper],
                                          env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                               "MASTER_PORT": "0", "ZP_STORE": str(self.folder / f"{name}.store")},
                                          stderr=subprocess.PIPE, text=True) for rank in range(2)]
            errors = [one.communicate()[1] for one in processes]
            self.assertEqual([one.returncode for one in processes], [0, 0], errors)
        found, text = self.attributed(self.file("ranks"), self.file("ranks2"))
        self.assertEqual(found["first_rank"], 1, text)
        self.assertIn("argument other of aten.mul", found["sentence"])
        self.assertEqual(found["ranks"][0]["origin"]["kind"], "collective", text)
        self.assertGreater(found["ranks"][1]["counts"]["agree"], 0)
        self.attributed(self.file("ranks"), self.file("ranks"), 0)


    def test_compiled_functions_run_as_their_operations(self):
        lines = self.recorded("compiled", lambda: torch.compile(lambda x: (x.sin() * 2).sum())(torch.ones(5)))
        names = [line[0] for line in lines if isinstance(line, list)]
        self.assertEqual(names[-3:], ["aten.sin.default", "aten.mul.Tensor", "aten.sum.default"])

    def test_time_of_a_step_of_the_size_of_nanogpt(self):
        """At most twice the processor time, by the best of several runs: other programs run here too."""
        done = subprocess.run([sys.executable, HERE / "operations_cost.py"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        print(done.stdout)
        self.assertLess(json.loads(done.stdout)["ratio"], 2)


RANK = """
import os, sys, torch, zproof
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + os.environ["ZP_STORE"], rank=int(os.environ["RANK"]),
                                     world_size=2)
torch.manual_seed(1)
model = torch.nn.Linear(6, 5)
if sys.argv[3] == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with zproof.torch.operations(sys.argv[1]):
    for step in range(2):
        loss = model(torch.ones(3, 6)).mul(1.5 if sys.argv[2] == os.environ["RANK"] else 1.0).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""

if __name__ == "__main__":
    unittest.main()
