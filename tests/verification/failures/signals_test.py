#!/usr/bin/env python3
"""Ended from outside, the command leaves a report, and no process, file or shared memory.

signals_test.py PROGRAM [REPEATS]
signals_test.py PROGRAM one             SIGTERM alone, while MPI ranks work
signals_test.py SIMULATION devices      while steps are replayed on simulated devices
"""

import os
import random
import signal
import sys
import time

from harness import Run, abandoned

LONG = ["verify", "byte_gpt_tiny", "--recipe", "adamw,lion", "--steps", "100", "--dtype", "bf16"]
ROWS = [
    (["--world", "mpi:3"], True),
    (["--world", "threads:3"], False),
    (["--world", "self,mpi:2"], True),
]
REPLAYED = ["verify", "byte_gpt_tiny/adamw/*", "--impl", "device-graph", "--steps", "2000", "--dtype", "bf16"]
DEVICES = [
    ["--world", "self", "--stage", "1"],
    ["--world", "threads:3", "--stage", "2"],
    ["--world", "threads:3", "--stage", "3", "--transport", "nccl"],  # of the library that ZP_NCCL_LIBRARY names
]
OPERATIONS = ["verify", "op/*", "--impl", "host"]


def check(program, number, arguments, in_job, delay, problems):
    what = f"{signal.Signals(number).name} after {delay:.2f} s of {' '.join(arguments)}"
    before = abandoned()
    with Run(program, arguments) as run:
        if in_job and not run.job_runs_within(60):
            problems.append(f"{what}: no rank started: {run.errors()[-300:]}")
        time.sleep(delay)
        if run.process.poll() is not None:
            problems.append(f"{what}: it ended before")
            return
        run.send(number)
        seconds = run.wait(20)
        if seconds is None or seconds > 4:
            problems.append(f"{what}: took {seconds} s")
        if run.process.returncode != -number:
            problems.append(f"{what}: exit {run.process.returncode}")
        if not run.gone_within(4):
            problems.append(f"{what}: processes left: {run.processes()}")
        if number != signal.SIGKILL and delay > 0.3:
            cases = run.cases()
            if not cases:
                problems.append(f"{what}: no report: {run.errors()[-300:]}")
            elif all(case["status"] in ("pass", "mistrusted") for case in cases):
                problems.append(f"{what}: a report without the cases that were not done")
            elif any(signal.Signals(number).name not in case["reason"] for case in cases if case["status"] == "error"):
                problems.append(f"{what}: a case has no reason")
            if "not finished" not in run.output():
                problems.append(f"{what}: the text is empty")
        if run.litter():
            problems.append(f"{what}: files left: {run.litter()}")
        if abandoned() - before:
            problems.append(f"{what}: shared memory left: {abandoned() - before}")


def check_ignored(program, problems):
    """Under nohup a run continues."""
    arguments = ["verify", "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1", "--steps", "300"]
    # UCX, which some builds of MPICH load, handles SIGHUP itself before a program can detect that it is ignored.
    with Run("nohup", [program, *arguments], UCX_DEBUG_SIGNO="0") as run:
        time.sleep(0.5)
        run.send(signal.SIGHUP)
        if run.wait(60) is None or run.process.returncode != 0:
            problems.append(f"nohup: exit {run.process.returncode} {run.errors()[-300:]}")


def check_swept(program, problems):
    """Files of a run that was killed together with its guard are removed by the next run."""
    with Run(program, [*LONG, "--world", "mpi:2"]) as first:
        if not first.job_runs_within(60):
            problems.append("sweeping: no rank came to life")
        for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none of them observes the end of another
            for pid in first.processes():
                os.kill(pid, number)
        first.wait(10)
        if not first.litter():
            problems.append("sweeping: nothing was left, so nothing is shown")
        with Run(program, ["verify", "byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep/bucket:4096/omp:1"],
                 ) as second:
            second.wait(60)
        # The second run has another folder: again, in the folder of the first.
        environment = dict(os.environ, TMPDIR=str(first.temporary))
        code = os.spawnle(os.P_WAIT, program, program, "verify",
                          "byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep/bucket:4096/omp:1", "--report",
                          "json:/dev/null", environment)
        if code != 0 or first.litter():
            problems.append(f"sweeping: exit {code}, left: {first.litter()}")
        if abandoned():
            problems.append(f"sweeping: shared memory left: {abandoned()}")


def check_commands(program, repeats, draw, problems):
    for repeat in range(repeats):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            for world, in_job in ROWS:
                check(program, number, [*LONG, *world], in_job, draw.uniform(0.35, 1) if repeat else 0.4, problems)
            check(program, number, OPERATIONS, False, draw.uniform(0.35, 1), problems)
    check_ignored(program, problems)
    check_swept(program, problems)


def main():
    program, rest = sys.argv[1], sys.argv[2:]
    problems = []
    draw = random.Random(1)
    if rest == ["devices"]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            for world in DEVICES:
                check(program, number, [*REPLAYED, *world], False, draw.uniform(1, 2), problems)
    elif rest == ["one"]:
        check(program, signal.SIGTERM, [*LONG, "--world", "mpi:3"], True, 0.4, problems)
    else:
        check_commands(program, int(rest[0]) if rest else 1, draw, problems)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
