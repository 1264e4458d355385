#!/usr/bin/env python3
"""zeroproof train on MPI ranks: asked to stop at any moment, and without a rank, it costs no bit.

train_test.py PROGRAM EXAMPLE ROW [REPEATS]      EXAMPLE is train_until_done.sh
"""

import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from harness import Run, abandoned, kill

TRAINING = ["--workload", "byte_gpt_tiny", "--dtype", "fp16", "--stage", "2"]
FOREVER = ["--steps", "1000000"]
TIMEOUT = 3  # seconds that ranks wait for each other
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def train(program, words):
    return subprocess.run([program, "train", *TRAINING, *words], capture_output=True, text=True, check=False)


def state_of(text):
    return next((line[6:38] for line in text.splitlines() if line.startswith("state ")), "")


def steps_of(folder):
    return sorted(int(path.name[5:]) for path in folder.glob("step-*"))


def logged(file):
    """What a log says of each step, except the time it took and the hash, which includes it."""
    steps = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if "step" in record:
            record.pop("seconds")
            record.pop("hash")
            steps[record["step"]] = record
    return steps


class Whole:
    """The run that never was disturbed."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.steps, self.state, self.to = {}, "", 0

    def problems_of(self, log, state, last):
        if last > self.to:
            self.to = last
            file = self.folder / f"whole-{last}.jsonl"
            end = train(self.program, ["--world", "self", "--steps", str(last), "--log", str(file)])
            self.steps, self.state = logged(file), state_of(end.stdout)
        found = logged(log)
        problems = [f"step {step} is another one" for step in range(1, last + 1)
                    if found.get(step) != self.steps.get(step)][:3]
        if state is not None and last == self.to and state != self.state:
            problems.append(f"state {state}, not {self.state}")
        return problems


def checkpoint_problems(program, folder):
    """All that is there is whole, nothing is half written, and the log knows of it."""
    problems = []
    seen = subprocess.run([program, "checkpoint", "verify", str(folder)], capture_output=True, text=True, check=False)
    if seen.returncode != 0:
        problems.append(f"checkpoint verify: exit {seen.returncode} {seen.stderr}")
    hidden = [path.name for path in folder.glob(".*")]
    if hidden:
        problems.append(f"left in the folder: {hidden}")
    return problems


def left_behind(run, before):
    problems = []
    if not run.gone_within(5):
        problems.append(f"processes left: {run.processes()}")
    deadline = time.monotonic() + 2  # the guard finally executes rm
    while (run.litter() or abandoned() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    if run.litter() or abandoned() - before:
        problems.append(f"files left: {run.litter()} {abandoned() - before}")
    return problems


def check_stop(program, folder, number, ranks, delay, saves):
    """One signal: the step under way is finished and saved, and nothing else happens."""
    runs = folder / "runs"
    before = abandoned()
    with Run(program, ["train", *TRAINING, *FOREVER, "--world", f"mpi:{ranks}", "--checkpoint", str(runs), *saves],
             report=False) as run:
        if not run.hears_within(number, 20):
            return ["it never listened"], 0
        time.sleep(delay)
        run.send(number)
        seconds = run.wait(30)
        problems = []
        if seconds is None:
            return ["did not end within 30 s"], 0
        if run.process.returncode != CODES[number]:
            problems.append(f"exit {run.process.returncode}: {run.errors()[-500:]}")
        if "stopped before the end; --resume continues" not in run.output():
            problems.append("does not say that it was stopped")
        if run.errors():
            problems.append(f"says {run.errors()[:300]}")
        problems += left_behind(run, before)
    problems += checkpoint_problems(program, runs)
    newest = (steps_of(runs) or [0])[-1]
    if newest == 0 or newest != max(logged(runs / "log.jsonl")):
        problems.append(f"the newest checkpoint is of step {newest}, and the log ends with another")
    return problems, newest


def check_stops(program, folder, repeats):
    draw = random.Random(1)
    whole = Whole(program, folder)
    problems, ended = [], []
    for repeat in range(repeats):
        number = (signal.SIGINT, signal.SIGTERM)[repeat % 2]
        ranks = 2 + repeat // 2 % 2
        saves = [[], ["--save-every", "1", "--keep", "2"], ["--save-every", "3", "--keep", "2", "--async"]][repeat % 3]
        delay = draw.uniform(0, 2)
        found, newest = check_stop(program, folder, number, ranks, delay, saves)
        if newest > 0:
            last = newest + 3
            end = train(program, ["--world", f"threads:{1 + repeat % 4}", "--steps", str(last), "--resume",
                                  "--checkpoint", str(folder / "runs")])
            found += whole.problems_of(folder / "runs/log.jsonl", state_of(end.stdout), last)
        ended.append(newest)
        what = f"{signal.Signals(number).name} after {delay:.2f} s of mpi:{ranks} {saves}"
        problems += [f"{what}: {word}" for word in found]
        shutil.rmtree(folder / "runs", ignore_errors=True)
    print(f"asked to stop {repeats} times, after steps {sorted(ended)}")
    return problems


def check_second(program, folder):
    """A stopped rank blocks the step of the others: the second signal does not wait for it."""
    problems = []
    before = abandoned()
    runs = folder / "runs"
    words = ["train", *TRAINING, *FOREVER, "--world", "mpi:2", "--checkpoint", str(runs), "--save-every", "1", "--keep",
             "2"]
    with Run(program, words, report=False) as run:
        if not run.job_runs_within(60):
            return [f"no rank came to life: {run.errors()}"]
        deadline = time.monotonic() + 20
        while not steps_of(runs) and time.monotonic() < deadline:
            time.sleep(0.05)
        kill(run.rank(1), signal.SIGSTOP)
        run.send(signal.SIGINT)
        time.sleep(1)
        if run.process.poll() is not None:
            return [f"the first signal was not waited with: exit {run.process.returncode}"]
        run.send(signal.SIGINT)
        seconds = run.wait(20)
        if seconds is None or seconds > 1 or run.process.returncode != -signal.SIGINT:
            problems.append(f"took {seconds} s, exit {run.process.returncode}")
        problems += left_behind(run, before)
    return problems + [word for word in checkpoint_problems(program, runs) if "left in the folder" not in word]


def check_signalled(program, folder):
    """SIGTERM to one rank alone: the job stops and saves, and the command has the code of the signal."""
    problems = []
    for rank in (1, 0):
        runs = folder / f"runs-{rank}"
        before = abandoned()
        with Run(program, ["train", *TRAINING, *FOREVER, "--world", "mpi:2", "--checkpoint", str(runs), "--save-every",
                           "1", "--keep", "2"], report=False) as run:
            if not run.job_runs_within(60):
                return [f"no rank came to life: {run.errors()}"]
            deadline = time.monotonic() + 20
            while not steps_of(runs) and time.monotonic() < deadline:
                time.sleep(0.05)
            kill(run.rank(rank), signal.SIGTERM)
            if run.wait(30) is None:
                return [f"rank {rank}: did not end within 30 s"]
            if run.process.returncode != CODES[signal.SIGTERM]:
                problems.append(f"rank {rank}: exit {run.process.returncode}: {run.errors()[-500:]}")
            problems += left_behind(run, before)
        problems += checkpoint_problems(program, runs)
    return problems


def check_lost(program, folder, what):
    """Exit code and words, and then on fewer ranks."""
    problems = []
    before = abandoned()
    runs = folder / "runs"
    words = ["train", *TRAINING, *FOREVER, "--world", "mpi:3", "--comm-timeout", str(TIMEOUT), "--checkpoint",
             str(runs), "--save-every", "2", "--keep", "2"]
    with Run(program, words, report=False) as run:
        if not run.job_runs_within(60):
            return [f"no rank came to life: {run.errors()}"]
        time.sleep(0.5)
        kill(run.rank(2), signal.SIGKILL if what == "killed" else signal.SIGSTOP)
        if run.wait(2 * TIMEOUT + 20) is None:
            return ["did not end"]
        if run.process.returncode != (6 if what == "killed" else 5):
            problems.append(f"exit {run.process.returncode}")
        errors = run.errors()
        verb = "ended" if what == "killed" else "is stopped"
        if f"zeroproof: rank 2 {verb} at step " not in errors or "--resume continues from the newest" not in errors:
            problems.append(f"not named: {errors}")
        if "rank 2 (process " not in errors or "the last 64; nothing moved for" not in errors:
            problems.append("the last collectives are not shown")
        problems += left_behind(run, before)
    last = steps_of(runs)[-1] + 3
    end = train(program, ["--world", "mpi:2", "--steps", str(last), "--resume", "--checkpoint", str(runs)])
    if end.returncode != 0:
        problems.append(f"resumed: exit {end.returncode} {end.stderr}")
    problems += Whole(program, folder).problems_of(runs / "log.jsonl", state_of(end.stdout), last)
    return problems + checkpoint_problems(program, runs)


def check_loop(program, example, folder):
    """The loop of the documents: four ranks, and every job loses one, until one is left, which is not killed."""
    problems = []
    runs, steps = folder / "runs", 400
    words = ["4", *TRAINING, "--steps", str(steps), "--checkpoint", str(runs), "--save-every", "1", "--keep", "2"]
    killed = []
    with Run(str(example), words, report=False, ZEROPROOF=program) as run:

        def spoil():
            for ranks in (4, 3, 2):
                begun = (steps_of(runs) or [0])[-1] if runs.exists() else 0
                while run.process.poll() is None and ((steps_of(runs) or [0])[-1] if runs.exists() else 0) < begun + 5:
                    time.sleep(0.02)
                victim = run.rank(ranks - 1)
                if victim is None:
                    return
                kill(victim, signal.SIGKILL)
                killed.append(ranks)
                while run.process.poll() is None and pathlib.Path(f"/proc/{victim}").exists():
                    time.sleep(0.02)

        spoiler = threading.Thread(target=spoil)
        spoiler.start()
        if run.wait(120) is None:
            problems.append("did not end within 120 s")
        spoiler.join()
        if run.process.returncode != 0 or killed != [4, 3, 2]:
            problems.append(f"exit {run.process.returncode}, killed in worlds of {killed}: {run.errors()[-500:]}")
        starts = [line for line in run.output().splitlines() if line.startswith("from ")]
        state = state_of(run.output())
    if len(starts) != 4:
        problems.append(f"{len(starts)} jobs: {starts}")
    problems += Whole(program, folder).problems_of(runs / "log.jsonl", state, steps)
    problems += checkpoint_problems(program, runs)
    # A cause that a restart would not remove ends it.
    newest = runs / f"step-{steps:08d}" / "rank-00000.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    end = subprocess.run([str(example), *words], env={"ZEROPROOF": program, "PATH": "/usr/bin:/bin"},
                         capture_output=True, text=True, check=False)
    if end.returncode != 7 or "[rank 3]" not in end.stderr or end.stderr.count("[rank 0]") != 1:
        problems.append(f"a damaged checkpoint: exit {end.returncode} {end.stderr}")
    return problems


def main():
    program, example, row = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    repeats = int(sys.argv[4]) if len(sys.argv) > 4 else 20
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zpf"))
    rows = {
        "stop": lambda: check_stops(program, folder, repeats),
        "second": lambda: check_second(program, folder),
        "signalled": lambda: check_signalled(program, folder),
        "killed": lambda: check_lost(program, folder, "killed"),
        "stopped": lambda: check_lost(program, folder, "stopped"),
        "loop": lambda: check_loop(program, example, folder),
    }
    try:
        problems = rows[row]()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(*problems, f"{len(problems)} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
