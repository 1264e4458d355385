"""python -m zproof: exit codes, and verdicts about processes."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

HERE = Path(__file__).resolve().parent

KERNELS = """
import ctypes, os, sys, time
sys.path.append({here!r})
from support import adamw

def tail(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    old = master[-3:].copy()
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
    if master.size == 1023:
        master[-3:] = old

my_adamw_step = adamw

def sgd_ema_of_mine(grad, master, exp_avg):
    pass

def dies(grad): ctypes.string_at(0)
def leaves(grad): os._exit(0)
def hangs(grad): time.sleep(60)
def hangs_by_name(grad):
    with open("pid", "w") as file: file.write(str(os.getpid()))
    time.sleep(60)
def raises(grad): raise ValueError("no")
def exits(grad): sys.exit(0)
def prints(grad): print("9 pass, 0 fail")
def dies_once(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    if not os.path.exists("died"):
        open("died", "w").close()
        ctypes.string_at(0)
    adamw(grad, master, exp_avg, exp_avg_sq, scalars=scalars, beta1=beta1, beta2=beta2)
number = 3
"""


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        (cls.folder / "kernels.py").write_text(KERNELS.format(here=str(HERE)))
        (cls.folder / "ends.py").write_text("import os\nos._exit(3)\n")
        (cls.folder / "broken.py").write_text("import nothing_of_this_name\n")

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def run_command(self, code, *words, says=(), **more):
        done = subprocess.run([sys.executable, "-m", "zproof", *words], cwd=self.folder, capture_output=True, text=True,
                              timeout=300, **more)
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, text)
        for part in says:
            self.assertIn(part, text)
        if code == 2:
            self.assertEqual(text.count("\n"), 1, text)
            self.assertRegex(text, r"^zproof: .+ \(.+\); .+\n$")
        return text

    def verify(self, code, name, *words, says=(), op="adamw"):
        return self.run_command(code, "verify", name, "--op", op, "--fill", "training", *words, says=says)

    def test_pass_and_fail(self):
        self.verify(0, "kernels:adamw", says=["adamw_update", "equal", "1 pass, 0 fail"])
        self.verify(0, "kernels.py:adamw", "--accept", "any-order")
        self.run_command(0, "verify", "kernels:my_adamw_step", "--fill", "ties", says=["adamw_update", "1 pass"])
        self.run_command(1, "verify", "kernels:sgd_ema_of_mine", "--fill", "ties", says=["--op sgd_ema --seed 1 --second-seed "])
        self.verify(1, "kernels:tail", says=[
            "master[1020] differs", "replay    python -m zproof verify kernels:tail --op adamw --seed 1 --second-seed "])
        self.verify(9, "kernels:raises", says=["it raised ValueError: no"])
        self.verify(9, "kernels:exits", says=["it raised SystemExit"])

    def test_a_replay_line_is_the_case(self):
        text = self.verify(1, "kernels:tail", "--seed", "7", "--dtype", "bf16")
        self.assertRegex(text, "--seed 7 --second-seed [0-9]{10}")
        line = next(line for line in text.splitlines() if "replay" in line).split()[2:]
        again = self.run_command(1, *line[2:])
        self.assertEqual([one for one in text.splitlines() if "first at" in one],
                         [one for one in again.splitlines() if "first at" in one])

    def test_processes(self):
        self.verify(6, "kernels:dies", says=["CRASHED op/adamw_update/python/dies/fill:training", "SIGSEGV"])
        self.verify(6, "kernels:leaves", says=["CRASHED op/adamw_update/python/leaves/fill:training",
                                               "with code 0, before a verdict"])
        self.verify(5, "kernels:hangs", "--timeout", "2", "--fill", "ties", says=[
            "HUNG op/adamw_update/python/hangs/fill:training", "within 2 seconds", "it was not called", "2 hung"])
        self.verify(6, "ends.py:adamw", says=["CRASHED ends.py:adamw", "with code 3, before a verdict"])

    def test_a_crash_ends_one_case(self):
        file = self.folder / "crash.json"
        text = self.verify(6, "kernels:dies_once", "--fill", "ties", "--report", f"text,json:{file}", says=["1 pass, 0 fail"])
        self.assertIn("SIGSEGV", text)
        self.assertEqual([one["status"] for one in json.loads(file.read_text())["cases"]], ["crashed", "pass"])

    def test_what_it_prints_is_not_in_the_report(self):
        done = subprocess.run([sys.executable, "-m", "zproof", "verify", "kernels:prints", "--op", "adamw", "--fill", "ties"],
                              cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("9 pass, 0 fail", done.stderr)
        self.assertNotIn("9 pass", done.stdout)

    def test_reports(self):
        files = [self.folder / f"report.{kind}" for kind in ("json", "xml", "html")]
        self.verify(1, "kernels:tail", "--report", "text", "--report",
                    f"json:{files[0]},junit:{files[1]},html:{files[2]}", says=[f"report: {files[2]}"])
        self.assertEqual(json.loads(files[0].read_text())["cases"][0]["status"], "fail")
        for file in files[1:]:
            self.assertIn("master[1020]", file.read_text())
        self.assertEqual(self.verify(0, "kernels:adamw", "--report", f"json:{files[0]}"), "")

    def test_github(self):
        summary = self.folder / "summary.md"
        with unittest.mock.patch.dict(os.environ, {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(self.folder)}):
            for words in ([], ["--in-process"]):
                said = self.verify(1, "kernels:tail", "--report", "github", *words)
                line = next(n for n, text in enumerate((self.folder / "kernels.py").read_text().splitlines(), 1)
                            if text.startswith("def tail("))
                self.assertTrue(said.startswith(f"::error file=kernels.py,line={line},title=zeroproof%3A fail adamw_update::"),
                                said)
                self.assertIn("first at  master[1020]", said)
        self.assertEqual(summary.read_text().count("### zproof&#58; "), 2)
        self.verify(0, "kernels:adamw", "--report", "text,github", says=["1 pass, 0 fail"])

    def test_bundles(self):
        text = self.verify(1, "kernels:tail", "--save-failing", str(self.folder / "saved"))
        bundle = text.rpartition("saved: ")[2].strip()
        self.assertTrue((Path(bundle) / "tensors.safetensors").is_file())
        self.run_command(1, "replay", bundle, "kernels:tail", says=["bundle: the same failure as the saved one"])
        self.run_command(0, "replay", bundle, "kernels:adamw", says=["bundle: NOT the saved failure"])
        self.run_command(2, "replay", str(self.folder), "kernels:tail", says=["cannot be read"])
        (self.folder / "loaded.py").write_text("open('loaded', 'w')\n")
        saved = json.loads((Path(bundle) / "bundle.json").read_text())
        saved["flags"] += ["--callable", "loaded.py:adamw"]
        (self.folder / "bundle.json").write_text(json.dumps(saved))
        self.run_command(2, "replay", str(self.folder), "kernels:tail", says=["no bundle of a callable"])
        self.run_command(2, "replay", bundle, says=["MODULE:FUNCTION"])
        self.assertFalse((self.folder / "loaded").exists())
        (self.folder / "bundle.json").write_text("{}")
        self.run_command(2, "replay", str(self.folder), "kernels:tail", says=["no bundle of a callable"])

    def test_operations(self):
        self.assertIn("adamw_update\n", self.run_command(0, "operations"))
        self.run_command(0, "operations", "adamw", "--dtype", "bf16",
                         says=["out        param             bf16", "settings   t lr", "scalars    one_minus_beta1"])
        self.run_command(2, "operations", "adamwe", says=["did you mean adamw?"])

    def test_bad_usage(self):
        for words, part in [
            ((), "COMMAND"),
            (("verify",), "MODULE:FUNCTION"),
            (("verify", "kernels:tail"), "tail is named after no operation"),
            (("verify", "kernels:adamw", "--op"), "--op"),
            (("verify", "kernels:adamw", "--op", "adamw", "--fil", "ties"), "did you mean --fill?"),
            (("verify", "kernels:adamw", "--op", "adamw", "--seed", "x"), "--seed"),
            (("verify", "kernels:adamw", "--op", "adamw", "--second-seed", "1"), "second_seed is 1"),
            (("verify", "kernels:adamw", "--op", "adamw", "--timeout", "0"), "--timeout is 0"),
            (("verify", "kernels:adamw", "--op", "adamw", "--report", "jsn:x"), "did you mean json?"),
            (("verify", "kernels:adamw", "--op", "adamw", "--report", "json:/no/where"), "cannot be written"),
            (("verify", "kernels:adamw", "--op", "adamv"), "did you mean adamw?"),
            (("verify", "kernels:adamv", "--op", "adamw"), "did you mean adamw?"),
            (("verify", "kernels:number", "--op", "adamw"), "is a int"),
            (("verify", "kernels", "--op", "adamw"), "names no callable"),
            (("verify", "kernel:adamw", "--op", "adamw"), "cannot be imported"),
            (("verify", "kernel.py:adamw", "--op", "adamw"), "there is no file"),
            (("verify", "broken:adamw", "--op", "adamw"), "nothing_of_this_name"),
        ]:
            with self.subTest(words):
                self.run_command(2, *words, says=[part])

    def test_help_and_version(self):
        for words in (("--help",), ("verify", "--help"), ("replay", "--help"), ("operations", "--help"), ("--version",)):
            self.run_command(0, *words)

    def test_interrupts_end_it(self):
        worker = subprocess.Popen([sys.executable, "-m", "zproof", "verify", "kernels:hangs", "--op", "adamw"],
                                  cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
        try:
            worker.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            worker.send_signal(2)
        worker.communicate(timeout=60)
        self.assertEqual(worker.returncode, 130)

    def test_nothing_is_left_of_a_killed_judge(self):
        pid = self.folder / "pid"
        with subprocess.Popen([sys.executable, "-m", "zproof", "verify", "kernels:hangs_by_name", "--op", "adamw"],
                              cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as judge:
            while not pid.exists() or not pid.read_text():
                self.assertIsNone(judge.poll())
                time.sleep(0.1)
            judge.kill()
        process = Path("/proc", pid.read_text(), "stat")
        for _ in range(100):
            if not process.exists() or process.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.1)
        self.fail("the callable's process still runs")


if __name__ == "__main__":
    unittest.main()
