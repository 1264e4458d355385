#!/usr/bin/env python3
"""The judge of the puzzles: starters fail, solutions pass, wrong attempts are reported."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
PUZZLES = NOTEBOOKS / "puzzles"
sys.path[:0] = [str(PUZZLES), str(NOTEBOOKS)]
import zp  # noqa: E402  (found by the line above)
from judge import arithmetic, catalogue, command, compiled, ranks, rules  # noqa: E402
from judge.cases.clip import norm_plan  # noqa: E402
from judge.inputs import gradients  # noqa: E402

SECONDS = 5  # of CPU time for a check
BROKEN = {"muon"}  # puzzles whose starter is wrong code to repair
ALL = sorted(path.parent.name for path in PUZZLES.glob("*/starter.py"))


def puzzle(*words, folder=None, seconds=60):
    return subprocess.run([sys.executable, NOTEBOOKS / "puzzle", *map(str, words)], capture_output=True, text=True,
                          cwd=folder, timeout=seconds)


class Judged(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def check(self, name, text):
        path = self.folder / f"{name}.py"
        path.write_text(text)
        before = time.monotonic()
        done = puzzle("check", path)
        self.assertLess(time.monotonic() - before, 30)
        self.assertEqual(done.stderr, "")
        self.assertNotIn("Traceback", done.stdout)
        return done

    def test_catalogue_lists_every_puzzle(self):
        self.assertEqual(ALL, sorted(catalogue.PUZZLES))
        self.assertEqual(ALL, sorted(command.NAMES))

    def test_order_is_that_of_the_lessons(self):
        lessons = [int(re.search(r"\(lessons? (\d+)", command.question_of(f"{name}.py")).group(1)) for name in command.NAMES]
        self.assertEqual(lessons, sorted(lessons))

    def test_starters_fail_and_solutions_pass(self):
        for name in ALL:
            starter = (PUZZLES / name / "starter.py").read_text()
            self.assertIn("# TODO", starter)
            done = self.check(name, starter)
            self.assertEqual((done.returncode, done.stdout.count("\n") == 1), (1, name not in BROKEN), name)
            before = os.times()
            done = self.check(name, (PUZZLES / name / "solution.py").read_text())
            after = os.times()
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertLess(sum(after[2:4]) - sum(before[2:4]), SECONDS, name)
            self.assertRegex(done.stdout, f"^correct: {name}, [1-9].* cases of .*, every bit\n[0-9]+ of 21 solved; next: .*\n$")

    def test_wrong_attempts_have_the_expected_verdict(self):
        for name in ALL:
            attempts = sorted((PUZZLES / name / "wrong").glob("*.py"))
            self.assertEqual(len(attempts), 2)
            for attempt in attempts:
                text = attempt.read_text()
                self.assertTrue(text.startswith("# caught: "), attempt)
                done = self.check(name, text)
                self.assertEqual(done.returncode, 1, f"{attempt}: {done.stdout}")
                for part in text.splitlines()[0][len("# caught: "):].split(" | "):
                    self.assertIn(part, done.stdout, attempt)

    def test_two_hints_each(self):
        for name in ALL:
            hints = (PUZZLES / name / "hints.txt").read_text().strip().split("\n\n")
            self.assertEqual([len(hint) > 80 for hint in hints], [True, True], name)

    def test_bad_files(self):
        head = "import numpy as np\n\n\ndef add_tree(leaves):\n    "
        table = [
            ("def add_tree(leaves:\n", 2, "the file does not parse at line 1"),
            ("\0", 2, "does not parse"),
            ("x = 1\n", 2, "the file has no function add_tree"),
            ("add_tree = 3\n", 2, "the file has no function add_tree"),
            ("import no_such_module\n", 6,
             "ModuleNotFoundError in line 1: No module named 'no_such_module'"),
            (head + "return None", 1, "returned nothing"),
            (head + "return sum(float(leaf[0]) for leaf in leaves)", 1,
             "returned float for grad_sum"),
            (head + "return [1.0]", 1, "returned list for grad_sum"),
            (head + "return np.zeros(7, np.float32)", 1, "of shape [7], expected [1]"),
            (head + "return sum(leaf.astype(np.float64) for leaf in leaves)", 1, "in float64"),
            (head + "return leaves[0][:]", 1, "as a view of its input"),
            (head + "leaves[0] += 1\n    return leaves[0] - 1", 1,
             "modified array 0 of its arguments"),
            (head + "leaves.pop()\n    return leaves", 1, "returned list"),
            (head + "return 1 / 0", 6, "ZeroDivisionError in line 5: division by zero"),
            (head + "return add_tree(leaves)", 6, "RecursionError"),
            (head + "raise KeyboardInterrupt", 6, "KeyboardInterrupt in line 5: no message"),
            (head + "raise SystemExit(0)", 6, "the function called exit in line 5"),
            (head + "import os; os._exit(0)", 6, "the process ended with exit code 0"),
            (head + "import os; os.abort()", 6, "the process ended with exit code -6"),
            (head + "return open('/dev/stdin').read()", 1, "returned str"),
            (head + "while True: pass", 5, "no result after 5 s of CPU time"),
        ]
        for text, code, said in table:
            done = self.check("add_tree", text + "\n")
            self.assertEqual(done.returncode, code, f"{text}: {done.stdout}")
            self.assertEqual(done.stdout.count("\n"), 1, f"{text}: {done.stdout}")
            self.assertIn(said, done.stdout)
            self.assertTrue(done.stdout.startswith("FAIL add_tree: "))

    def test_long_output_is_truncated(self):
        solution = (PUZZLES / "add_tree" / "solution.py").read_text()
        done = self.check("add_tree", "print('x' * 79)\n" * 3 + "print('y' * 1_000_000)\n" + solution)
        self.assertEqual(done.returncode, 0)
        self.assertLess(len(done.stdout), 3000)
        self.assertIn("1,000,241 bytes were printed, of which 2,000 are shown", done.stdout)
        done = self.check("add_tree", "while True: print('z' * 100_000)\n")
        self.assertEqual(done.returncode, 6)
        self.assertIn("OSError in line 1", done.stdout)
        self.assertLess(len(done.stdout), 3000)

    def test_results_of_wrong_type(self):
        for answer, said in (("3", "return a list of (level, index)"),
                             ("[(1, 2, 3)]", "return a list of (level, index)"),
                             ("['ab']", "return a list of (level, index)"),
                             ("[]", "got no node  want (0, 5)")):
            self.assertIn(said, self.check("maximal_nodes", f"def maximal_nodes(a, b):\n    return {answer}\n").stdout)
        done = self.check("adamw", "def adamw(grad, master, exp_avg, exp_avg_sq, s):\n    return master, exp_avg\n")
        self.assertIn("returned tuple; return a tuple of master", done.stdout)


class Command(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def refused(self, *words):
        done = puzzle(*words, folder=self.folder)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.assertRegex(done.stderr, r"^puzzle: .*; .*\n$")
        return done.stderr

    def test_from_start_to_solution(self):
        self.assertEqual(puzzle("list", folder=self.folder).stdout.count("not started"),
                         len(ALL) + len(compiled.PUZZLES))
        self.assertIn("is not solved in", self.refused("solution", "add_tree"))
        self.assertEqual(puzzle("start", "add_tree", folder=self.folder).returncode, 0)
        path = self.folder / "add_tree.py"
        path.write_text("# mine\n")
        self.assertIn("is not overwritten", self.refused("start", "add_tree"))
        self.assertEqual(path.read_text(), "# mine\n")
        self.assertRegex(puzzle("list", folder=self.folder).stdout, r"add_tree +started")
        first, second, third = [puzzle("hint", "add_tree", folder=self.folder).stdout for _ in range(3)]
        self.assertEqual([text.count("of 2: ") for text in (first, second, third)], [1, 2, 2])
        path.write_text((PUZZLES / "add_tree" / "solution.py").read_text())
        self.assertEqual(puzzle("check", path).returncode, 0)
        self.assertRegex(puzzle("list", self.folder).stdout, r"add_tree +solved")
        self.assertIn("def add_tree", puzzle("solution", "add_tree", self.folder).stdout)
        self.assertEqual(puzzle("hint", "add_tree", folder=self.folder).stdout, third)
        self.assertIn("is not solved in", self.refused("solution", "clip"))

    def test_bad_arguments(self):
        self.assertIn("unknown puzzle 'adam'; did you mean adamw?", self.refused("start", "adam"))
        self.assertIn("unknown puzzle 'xyz'; use one of add_tree,", self.refused("hint", "xyz"))
        self.assertIn("is not a folder", self.refused("start", "clip", "nowhere"))
        self.assertIn("is not a file", self.refused("check", "clip.py"))
        (self.folder / "mine.py").write_text("")
        for verb in ("check", "watch"):
            self.assertIn("cannot tell which puzzle mine.py is for; add --name NAME", self.refused(verb, "mine.py"))
            self.assertIn("unknown puzzle 'clipp'; did you mean clip?", self.refused(verb, "mine.py", "--name", "clipp"))
        self.assertEqual(puzzle("check", "mine.py", "--name", "clip", folder=self.folder).returncode, 2)
        (self.folder / ".puzzles.json").write_text("[1, 2")
        for words in (("list",), ("hint", "clip"), ("solution", "clip")):
            self.assertIn("is damaged", self.refused(*words))
        for words in ((), ("chek",), ("start",)):
            self.assertEqual(puzzle(*words, folder=self.folder).returncode, 2)


    def test_progress_and_next(self):
        self.assertTrue(puzzle("list", folder=self.folder).stdout.endswith("\n0 of 21 solved; next: add_tree\n"))
        self.assertRegex(puzzle("next", folder=self.folder).stdout,
                         r"^add_tree: The sum .*\npython3 .*puzzle start add_tree \.\n0 of 21 solved\n$")
        puzzle("start", "add_tree", folder=self.folder)
        self.assertIn("puzzle check add_tree.py\n", puzzle("next", folder=self.folder).stdout)
        solved = {name: {"solved": True} for name in ("adamw", *command.NAMES[:2])}
        (self.folder / ".puzzles.json").write_text(json.dumps(solved))
        self.assertIn("3 of 21 solved; next: loss_scaler\n", puzzle("list", folder=self.folder).stdout)
        solved |= {name: {"solved": True} for name in command.NAMES}
        (self.folder / ".puzzles.json").write_text(json.dumps(solved))
        self.assertIn("start grad_sum --cpp .\n13 of 21 solved\n", puzzle("next", folder=self.folder).stdout)
        self.assertEqual(puzzle("start", "grad_sum", "--cpp", ".", folder=self.folder).returncode, 0)
        solved |= {f"{name}.cpp": {"solved": True} for name in compiled.PUZZLES}
        (self.folder / ".puzzles.json").write_text(json.dumps(solved))
        self.assertEqual(puzzle("next", folder=self.folder).stdout, "21 of 21 solved\n")

    def test_start_and_hint_show_the_rule(self):
        self.assertEqual(sorted(rules.PASSAGES), sorted({*command.NAMES, *compiled.PUZZLES}))
        for name, passages in rules.PASSAGES.items():
            text = rules.rules_of(name)
            self.assertLess(text.count("\n"), 35, name)
            for rule, begin, _ in passages:
                self.assertRegex(text, f"(?m)^{rule} [A-Z]", name)
                self.assertIn(begin.strip("| "), text, name)
        for words in (("start", "adamw"), ("hint", "adamw"), ("start", "adamw_update", "--cpp")):
            said = puzzle(*words, folder=self.folder).stdout
            self.assertIn("\n\nR6 Phases and arithmetic\n\nadamw and adam:\n\n    a1 = beta1 * exp_avg;", said)
        self.assertEqual(puzzle("start", "repair", folder=self.folder).stdout.count("\n"), 1)


class Watch(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.path = pathlib.Path(kept.name, "add_tree.py")
        self.path.write_text((PUZZLES / "add_tree" / "starter.py").read_text())
        self.solution = (PUZZLES / "add_tree" / "solution.py").read_text()

    def started(self, **words):
        watching = subprocess.Popen([sys.executable, NOTEBOOKS / "puzzle", "watch", self.path],
                                    stderr=subprocess.PIPE, text=True, **words)
        self.addCleanup(watching.stderr.close)
        self.addCleanup(watching.kill)
        late = threading.Timer(60, watching.kill)  # ends a wait for lines that do not come
        late.start()
        self.addCleanup(late.cancel)
        return watching

    def until(self, pipe, start):
        """Lines up to one that begins with `start`."""
        lines = []
        while not lines or not lines[-1].startswith(start):
            lines.append(pipe.readline())
            self.assertNotEqual(lines[-1], "", lines)
        return "".join(lines)

    def test_judges_every_save_and_ends_with_ctrl_c(self):
        watching = self.started(stdout=subprocess.PIPE)
        self.addCleanup(watching.stdout.close)
        self.assertRegex(self.until(watching.stdout, "FAIL"), r"^watching .*\n\n\d\d:\d\d:\d\d\nFAIL add_tree: ")
        self.path.unlink()  # as some editors do
        time.sleep(0.5)
        new = self.path.with_suffix(".new")
        new.write_text(self.solution)
        new.replace(self.path)
        self.assertRegex(self.until(watching.stdout, "1 of 21"), r"^\n.*\ncorrect: add_tree, .*\n1 of 21 solved; next")
        self.path.write_text(self.solution.replace("def add_tree", "def other"))
        self.assertNotIn("\033", self.until(watching.stdout, "FAIL"))
        self.path.write_text("while True: pass\n")  # Ctrl-C while it is judged
        self.until(watching.stdout, "\n")
        time.sleep(0.5)
        watching.send_signal(signal.SIGINT)
        self.assertEqual((watching.wait(5), watching.stderr.read()), (0, ""))
        commands = [file.read_bytes() for file in pathlib.Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
        self.assertFalse([one for one in commands if str(self.path).encode() in one])

    def test_ends_when_no_one_reads(self):
        watching = self.started(stdout=subprocess.PIPE)
        self.until(watching.stdout, "FAIL")
        watching.stdout.close()
        self.path.write_text(self.solution)
        self.assertEqual((watching.wait(20), watching.stderr.read()), (0, ""))

    def test_colours_on_a_terminal_alone(self):
        for no_color, start in (("", "\033[31mFAIL"), ("1", "FAIL")):
            ours, theirs = pty.openpty()
            watching = self.started(stdout=theirs, env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm"})
            os.close(theirs)
            with os.fdopen(ours, "r") as terminal:
                self.until(terminal, start)
                watching.send_signal(signal.SIGINT)
                self.assertEqual(watching.wait(5), 0)


class Ranks(unittest.TestCase):
    def test_collectives(self):
        def body(rank, comm, memory):
            gathered = comm.all_gather(np.full(rank, rank, np.float32))
            dealt = comm.all_to_all([np.array([10 * rank + to]) for to in range(3)])
            total = comm.all_reduce(np.array([rank, 2**63], np.uint64))
            for part in gathered:
                memory.release(part)
            return [part.size for part in gathered], [int(part[0])
                                                      for part in dealt], total.tolist()

        world, results = ranks.run_ranks(3, body)
        self.assertEqual([result[0] for result in results], [[0, 1, 2]] * 3)
        self.assertEqual([result[1] for result in results], [[0, 10, 20], [1, 11, 21], [2, 12, 22]])
        self.assertEqual(results[0][2], [3, 2**63])
        self.assertEqual(world.messages, [4, 6, 6])  # an empty block is no message
        self.assertEqual(world.bytes, [2 * 4 * rank + 16 + 32 for rank in range(3)])
        kept = [16 + 16] * 3  # without a rank's copies to itself
        self.assertEqual(world.peak, [size + 16 + 4 * (0 + 1 + 2 - rank) for rank, size in enumerate(kept)])
        self.assertEqual(world.held, kept)

    def test_misuse_and_deadlock(self):
        def ended(body):
            with self.assertRaises((ranks.Misuse, ranks.DeadEnd, ZeroDivisionError)) as caught:
                ranks.run_ranks(3, body)
            return str(caught.exception)

        self.assertIn("integers only (R10)",
                      ended(lambda rank, comm, memory: comm.all_reduce(np.ones(2))))
        self.assertIn("got list", ended(lambda rank, comm, memory: comm.all_gather([1])))
        self.assertIn("different type or shape",
                      ended(lambda rank, comm, memory: comm.all_reduce(np.arange(1 + rank % 2))))
        self.assertIn("one block for each", ended(lambda rank, comm, memory: comm.all_to_all([np.ones(1)])))
        self.assertIn("not held", ended(lambda rank, comm, memory: memory.release(np.ones(1))))
        self.assertIn("got int", ended(lambda rank, comm, memory: memory.hold("x", 3)))
        self.assertIn("division", ended(lambda rank, comm, memory: 1 // (rank - 1) or comm.all_gather(np.ones(1))))
        said = ended(lambda rank, comm, memory: rank == 1 or comm.all_gather(np.ones(1)))
        self.assertEqual(
            said,
            "rank 1 ended after 0 calls (every rank must call a collective); waiting forever: "
            "rank 0 in all_gather, its call 1, rank 2 in all_gather, its call 1")

    def test_sent_blocks_are_copies(self):
        def body(rank, comm, memory):
            block = np.array([rank])
            got = comm.all_gather(block)
            block[0] = -1
            got[0][0] += 7
            return [int(part[0]) for part in comm.all_gather(got[0]) + got]

        self.assertEqual(ranks.run_ranks(2, body)[1], [[7, 7, 7, 1]] * 2)


class Truth(unittest.TestCase):
    """The judge's expected results equal those of the programs."""

    def test_adamw(self):
        with tempfile.TemporaryDirectory() as folder:
            call, made = pathlib.Path(folder, "call.st"), pathlib.Path(folder, "made.st")
            for words in ((), ("--fill", "ties"), ("--numel", 37, "--seed", 3)):
                zp.run("gen", "adamw_update", *words, "-o", call)
                before = zp.tensors(call)
                said = {name[15:]: np.float32(float(value)) for name, value in before.metadata.items()
                        if name.startswith("setting.scalar.")}
                said |= {beta: np.float32(float(before.metadata[f"setting.{beta}"])) for beta in ("beta1", "beta2")}
                ours = arithmetic.adam_scalars(int(before.metadata["setting.t"]))
                for name in vars(ours):
                    self.assertEqual(float(getattr(ours, name)), float(said[name]), name)
                order = [before[f"before.{name}"] for name in ("grad", "master", "exp_avg", "exp_avg_sq")]
                master, m, v = arithmetic.adamw_step(*order, ours)
                zp.write_tensors(made, {"after.master": master, "after.exp_avg": m, "after.exp_avg_sq": v,
                                        "after.max_exp_avg_sq": before["before.max_exp_avg_sq"]})
                zp.run("judge", call, made)  # exits with 1 if a bit differs

    def test_norm_and_plan(self):
        shards = gradients(3, 4, 100)
        with tempfile.TemporaryDirectory() as folder:
            path, settings = pathlib.Path(folder, "g.safetensors"), pathlib.Path(folder, "s.toml")
            zp.write_tensors(path, {"grad.1.0.x": np.concatenate(shards)}, steps=1, micro_batches=1)
            settings.write_text("[optimizer]\nmax_norm = 0.25\nnorm = 'exact'\n")
            run = ("verify", "--gradients", path, "--config", settings, "--recipe", "adamw", "--dtype", "fp32")
            dump = zp.file_of(*run, "--stage", 2, "--impl", "host", "--world", "threads:4", option="--dump")
        coef = arithmetic.coefficient(sum(map(arithmetic.sum_of_squares, shards)), 0.25)
        self.assertEqual(zp.hexadecimal(coef), zp.hexadecimal(dump["clip_coef.1"].reshape(())))
        for size in (2, 3, 5):
            plan = zp.json_of("plan", "byte_gpt_tiny", "--grid", f"{size}x1x1", "--stage", 1)
            norm = {(row["sent_bytes"], row["messages"]) for row in found(plan, "collective") if row["phase"] == "norm"}
            ours = norm_plan(size)
            self.assertEqual(norm, {(ours["bytes"], ours["messages"])})

    def test_words(self):
        total = arithmetic.sum_of_squares(np.array([1e20, 1e-45, 3], np.float32))
        self.assertEqual(arithmetic.from_words(arithmetic.to_words(total)), total)


def found(value, key):
    """Every dictionary below `value` that has this key."""
    if isinstance(value, dict):
        below = [row for inner in value.values() for row in found(inner, key)]
        return below + ([value] if key in value else [])
    return [row for inner in value for row in found(inner, key)] if isinstance(value, list) else []


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
