#!/usr/bin/env python3
"""C++ puzzles: starters fail, solutions pass, wrong attempts and compile errors are reported;
the program's own implementations, handed in as a learner's, are right.

    compiled_puzzle_test.py            the first wrong attempt of every puzzle, and everything else
    compiled_puzzle_test.py every      every wrong attempt, and nothing else: a compilation each
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
CPP = NOTEBOOKS / "puzzles" / "cpp"
sys.path[:0] = [str(NOTEBOOKS / "puzzles")]
from judge import command, compiled  # noqa: E402  (found by the line above)

ALL = sorted(compiled.PUZZLES)
SECONDS = 5  # of CPU time for a check
EVERY = sys.argv[1:] == ["every"]


def caught(text):
    """The parts of the verdict that the first comment of a wrong attempt names."""
    head = " ".join(line[3:] for line in re.match(r"(// .*\n)+", text)[0].splitlines())
    assert head.startswith("caught: "), head
    return head[len("caught: "):].split(" | ")


class Compiled(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def puzzle(self, *words, **env):
        return subprocess.run([sys.executable, NOTEBOOKS / "puzzle", *map(str, words)], capture_output=True, text=True,
                              cwd=self.folder, timeout=120, env={**os.environ, **env})

    def judge_once(self, name, path):
        """The verdict on a file that is compiled the first time."""
        if not hasattr(self, "library") or self.library[0] != path:
            self.library = path, *compiled.build(name, path, self.folder)
        library, why = self.library[1:]
        self.assertEqual(why, "")
        if compiled.by_program(name):
            return compiled.judged_by_program(name, library)
        return command.judged(name, library)[0]

    def check(self, name, text, code, **env):
        path = self.folder / f"{name}.cpp"
        path.write_text(text)
        done = self.puzzle("check", path, **env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stdout + done.stderr)
        return done.stdout if code != 3 else done.stderr

    def test_starters_fail_and_solutions_pass(self):
        for name in ALL:
            starter, solution = [(CPP / name / f"{kind}.cpp").read_text() for kind in ("starter", "solution")]
            self.assertIn("// TODO", starter)
            self.assertIn("first at", self.check(name, starter, 1))
            before = os.times()
            said = self.check(name, solution, 0)
            after = os.times()
            self.assertRegex(said, rf"^correct: {name}, [1-9].* cases of .*, every bit\n[0-9]+ of 21 solved; next: .*\n$")
            self.assertLess(sum(after[2:4]) - sum(before[2:4]), SECONDS, name)
            hints = (CPP / name / "hints.txt").read_text().strip().split("\n\n")
            self.assertEqual([len(hint) > 80 for hint in hints], [True, True], name)

    def test_wrong_attempts_have_the_expected_verdict(self):
        for name in ALL:
            attempts = sorted((CPP / name / "wrong").glob("*.cpp"))
            self.assertEqual(len(attempts), 2)
            for attempt in attempts if EVERY else attempts[:1]:
                said = self.check(name, attempt.read_text(), 1)
                for part in caught(attempt.read_text()):
                    self.assertIn(part, said, attempt)

    def test_compile_errors(self):
        right = (CPP / "grad_sum" / "solution.cpp").read_text()
        begin = "  std::vector<float> level(leaves.size());\n"
        line = right[:right.index(begin)].count("\n") + 1
        self.assertIn(begin, right)
        table = [
            (right.replace(begin, ""), "'level' was not declared in this scope"),
            (right.replace(begin, begin.replace(";", "")), f"does not compile at line {line + 1}: "),
            (right.replace("#include <vector>", "#include <no_such>"), "at line 3: no_such: No such file"),
            (right.replace("void grad_sum", "float grad_sum"), "ambiguating new declaration"),
            (right.replace("Span<float> sum", "Span<float>& sum"), "no function zeroproof::mine::grad_sum with the "),
            (right.replace("zeroproof::mine", "zeroproof"), "no function zeroproof::mine::grad_sum with the arg"),
            ("int main() {}\n", "no function zeroproof::mine::grad_sum with the arguments of GradSumFn"),
            ("#include <vector>\nint f();\nint x = f();\n" + right, "undefined reference to `f()'"),
        ]
        for text, said in table:
            shown = self.check("grad_sum", text, 2, CXX="g++")
            self.assertIn(said, shown)
            self.assertEqual(shown.count("\n"), 1, shown)
            self.assertTrue(shown.startswith("FAIL grad_sum: the file "), shown)

    def test_functions_that_do_not_return(self):
        ways = ("throw 3;", "std::string().at(1);", "__builtin_trap();", "for (volatile int i = 0;;) i = 1;")
        places = "".join(f"case '{k}': {way} break;\n" for k, way in enumerate(ways))
        for name in ("grad_sum", "cast_to_bf16"):
            right = (CPP / name / "solution.cpp").read_text()
            at = right.index("{", right.index(f"void {name}")) + 1
            path = self.folder / f"{name}.cpp"
            path.write_text("#include <cstdlib>\n#include <string>\n" + right[:at] +
                            f"\nswitch (*std::getenv(\"WAY\")) {{\n{places}}}\n" + right[at:])
            here = name == "grad_sum"
            for way, (status, said) in enumerate(
                (("error", "something that is no exception"), ("error", "basic_string::at"),
                 ("ended", "ended" if here else "SIGILL"),
                 ("hung", "no result after 1 s" if here else "did not return"))):
                with mock.patch.dict(os.environ, {"WAY": str(way), "ZP_PUZZLE_SECONDS": "1"}):
                    verdict = self.judge_once(name, path)
                self.assertIn(said, verdict["text"])
                self.assertEqual(command.EXIT[verdict["status"]], command.EXIT[status], verdict)
        right_sum = (CPP / "grad_sum" / "solution.cpp").read_text()
        refuses = right_sum.replace("!leaves.empty()", "leaves.size() > 5")
        self.assertIn("grad_sum rejected valid arguments after", self.check("grad_sum", refuses, 1))
        edits = right_sum.replace("    sum[i] = level[0];", "    sum[i] = level[0];\n    const_cast<float&>(leaves[0][i])"
                                  " = 1;")
        self.assertIn("modified its leaves", self.check("grad_sum", edits, 1))
        throws = right_sum.replace("!leaves.empty()", "(throw 3, true)")
        self.assertIn("FAIL grad_sum: grad_sum threw for valid arguments: something that",
                      self.check("grad_sum", throws, 6))
        said = self.puzzle("check", self.folder / "grad_sum.cpp", ZP_PUZZLE_SECONDS="soon")
        self.assertEqual((said.returncode, said.stdout), (2, ""))
        self.assertRegex(
            said.stderr,
            r"^puzzle: ZP_PUZZLE_SECONDS must be an integer from 1 to 9999, got 'soon'\n$")

    def test_missing_compiler_or_build(self):
        right = (CPP / "clip_coef" / "solution.cpp").read_text()
        said = self.check("clip_coef", right, 3, CXX="no-such-compiler")
        self.assertRegex(said, r"^puzzle: no C\+\+ compiler found; .*\n$")
        said = self.check("clip_coef", right, 3, ZP_BUILD=str(self.folder))
        self.assertRegex(
            said, r"^puzzle: .*zeroproof does not exist \(.*\); run ./verification/run first\n$")

    def test_from_start_to_solution(self):
        def refused(*words):
            done = self.puzzle(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            return done.stderr

        self.assertIn("in C++ only; add --cpp", refused("start", "grad_sum"))
        self.assertIn("in Python only; omit --cpp", refused("start", "adamw", "--cpp"))
        self.assertEqual(self.puzzle("start", "maximal_nodes", "--cpp", ".").returncode, 0)
        path = self.folder / "maximal_nodes.cpp"
        self.assertEqual(path.read_text(), (CPP / "maximal_nodes" / "starter.cpp").read_text())
        self.assertIn("is not overwritten", refused("start", "--cpp", "maximal_nodes"))
        self.assertRegex(self.puzzle("list").stdout, r"maximal_nodes +not started .*(.*\n)*maximal_nodes.cpp +started")
        hints = [self.puzzle("hint", "maximal_nodes", "--cpp").stdout.count("of 2: ") for _ in range(3)]
        self.assertEqual(hints, [1, 2, 2])
        self.assertIn("is not solved in", refused("solution", "maximal_nodes", "--cpp"))
        self.check("maximal_nodes", (CPP / "maximal_nodes" / "solution.cpp").read_text(), 0)
        self.assertRegex(self.puzzle("list").stdout, r"maximal_nodes +not started .*(.*\n)*maximal_nodes.cpp +solved")
        self.assertIn("std::vector<TreeNode>", self.puzzle("solution", "maximal_nodes", "--cpp").stdout)
        self.assertIn("is not solved in", refused("solution", "maximal_nodes"))

    def test_the_implementations_of_the_program_are_right(self):
        """What results are compared with is what the program computes (its maximal_nodes would push 2^40 leaves)."""
        sums = [f"reference/{name}.cpp" for name in ("gradients/grad_sum", "gradients/tree_stack", "step/buffers",
                                                     "checks", "formats/cast", "formats/fp8")]
        sums.append("common/base/philox.cpp")
        implementations = {
            "grad_sum": (sums, "void grad_sum(const Exec& exec, Span<const Span<const float>> leaves, Span<float> sum)",
                         "reference::grad_sum(exec, leaves, sum)"),
            "grad_norm_exact_accumulate": (
                ["reference/gradients/grad_norm.cpp", "reference/gradients/limb_deposit.cpp", "reference/checks.cpp"],
                "void grad_norm_exact_accumulate(const Exec& exec, Span<const float> grad, NormLimbs& limbs)",
                "reference::grad_norm_exact_accumulate(exec, grad, limbs)"),
            "shard_map": (["common/layout/shard_map.cpp", "common/layout/flat_layout.cpp"],
                          "FlatRange shard_map(std::int64_t numel, int ranks, std::int64_t bucket_numel, std::size_t "
                          "bucket, int rank)", "return ShardMap(numel, ranks, bucket_numel).slice(bucket, rank)"),
        }
        for name, (sources, head, body) in implementations.items():
            text = "".join(f'#include "{source}"\n' for source in sources)
            self.check(name, f"{text}namespace zeroproof::mine {{\n{head} {{ {body}; }}\n}}\n", 0,
                       CPLUS_INCLUDE_PATH=os.environ["ZP_EIGEN_DIR"])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    if EVERY:
        sys.argv[1:] = ["Compiled.test_wrong_attempts_have_the_expected_verdict"]
    unittest.main()
