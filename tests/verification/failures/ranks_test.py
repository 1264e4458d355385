#!/usr/bin/env python3
"""A rank that dies, stops, sleeps or throws: all processes end, and rank, step and collective are named for every case.

ranks_test.py PROGRAM LIBRARY [ROW...]      LIBRARY is misbehave.cpp, built
ranks_test.py PROGRAM LIBRARY points N      N random positions in worlds of 2, 4 and 8 ranks
ranks_test.py PROGRAM LIBRARY slow N        N times a rank that is late by 0.8 of what the others wait
"""

import random
import re
import subprocess
import sys
import time

from harness import Run, abandoned

TIMEOUT = 3  # seconds that ranks wait for each other
WHAT = ["killed", "stopped", "exits-0", "exits-3", "aborts", "sleeps", "throws"]
COLLECTIVES = r"(all_gather|all_to_all|all_reduce|broadcast|barrier|split|reduce_scatter)"
# In addition to the time limit: mpirun's delay from SIGTERM to SIGKILL, the report, and a start on a busy machine.
LIMIT = 2 * TIMEOUT + 20


def named(case, rank):
    """True if a case names the rank, the step and the collective."""
    reason = case["reason"]
    return (re.search(rf"\branks? (\d+(, \d+)* and )?{rank}\b", reason) is not None
            and re.search(r"\bstep \d+|before the first step", reason) is not None
            and re.search(COLLECTIVES, reason) is not None)


def job_of(world, timeout):
    return ["verify", "byte_gpt_tiny", "--recipe", "adamw,lion", "--world", f"mpi:{world}", "--stage", "1,2", "--dtype",
            "bf16", "--impl", "host", "--windows", "off", "--comm-timeout", str(timeout)]


JOB = job_of(3, TIMEOUT)


def run_job(program, library, plan, arguments=JOB, limit=LIMIT):
    """Returns the problems, and the cases."""
    problems = []
    before = abandoned()
    with Run(program, arguments, ZP_MISBEHAVE=plan, LD_PRELOAD=library) as run:
        seconds = run.wait(limit)
        if seconds is None:
            return [f"did not end within {limit} s"], [], "", None
        if not run.gone_within(3):
            problems.append(f"processes left: {run.processes()}")
        if run.litter() or abandoned() - before:
            problems.append(f"files left: {run.litter()} {abandoned() - before}")
        return problems, run.cases(), run.errors(), run.process.returncode


def check_flights(broken, rank, world):
    """The report has the last collectives of all ranks, once."""
    recorded = [case["flights"] for case in broken if case["flights"]]
    if len(recorded) != 1 or [flight["rank"] for flight in recorded[0]] != list(range(world)):
        return [f"{len(recorded)} cases have flight records"]
    problems = []
    for flight in recorded[0]:
        last = flight["last"]
        if len(last) != min(64, flight["collectives"]) or not last:
            problems.append(f"rank {flight['rank']} did last: {flight['at']}, {len(last)} of {flight['collectives']}")
        if flight["rank"] != rank and last[-1]["state"] == "done":
            problems.append(f"rank {flight['rank']} waited for no rank")
        if any(before["begun_seconds_ago"] < after["begun_seconds_ago"] for before, after in zip(last, last[1:])):
            problems.append("not the oldest first")
    return problems


def check(program, library, what, rank, where, n=200, world=3):
    """None if the rank did not get so far."""
    timeout = TIMEOUT * (2 if world > 4 else 1)
    problems, cases, errors, code = run_job(program, library, f"{rank} {what} {where} {n}", job_of(world, timeout),
                                            LIMIT + 2 * world)
    if code == 0 and n != 200 and all(case["status"] == "pass" for case in cases):
        return None
    broken = [case for case in cases if case["status"] in ("hung", "crashed", "error")]
    if len(cases) != 4 or not broken:
        problems.append(f"{len(cases)} cases, {len(broken)} of them broken")
    if what == "throws":  # the job continues, and so do its other cases
        if len(broken) != 1 or any(case["status"] != "pass" for case in cases if case not in broken):
            problems.append("another case suffers")
        if code != 9:
            problems.append(f"exit {code}")
        if not re.search(r"step \d+|before the first step", broken[0]["reason"]) or not re.search("MPI_ERR_OTHER|Other MPI error", broken[0]["reason"]):
            problems.append(f"not named: {broken[0]['reason']}")
        return problems
    if code == 9:
        problems.append(f"an error of the command: {errors[-400:]}")
    status = "hung" if what in ("stopped", "sleeps") else "crashed"
    if code != {"hung": 5, "crashed": 6}[status]:
        problems.append(f"exit {code}")
    for case in broken:
        if case["status"] != status:
            problems.append(f"{case['status']}, not {status}")
        if not named(case, rank):
            problems.append(f"not named: {case['reason']}")
    problems += check_flights(broken, rank, world)
    if not re.search(rf"rank {rank} \(process \d+\).*: \d+ collectives, the last \d+; ", errors):
        problems.append("the last collectives are not shown")
    return problems


def check_slow(program, library, tries=1):
    draw = random.Random(tries)
    problems = []
    for _ in range(tries):
        plan = f"{draw.randrange(3)} slow {draw.choice(['step', 'collective'])} {draw.randrange(1, 400)}"
        found, cases, _, code = run_job(program, library, plan)
        if code != 0 or not cases or any(case["status"] != "pass" for case in cases):
            found.append(f"a rank that was merely slow, {plan}: exit {code}")
        problems += found
    print(f"{tries} times a rank was slow")
    return problems


def check_points(program, library, count):
    """Random ends of random ranks at random places."""
    draw = random.Random(count)
    problems, visited = [], {}
    while sum(visited.values()) < count:
        world, what, where = draw.choice([2, 4, 8]), draw.choice(WHAT), draw.choice(["step", "collective"])
        rank, n = draw.randrange(world), draw.randrange(1, 600)
        found = check(program, library, what, rank, where, n, world)
        if found is None:
            continue
        visited[what] = visited.get(what, 0) + 1
        name = f"{what} rank {rank} of {world}, {where} {n}"
        print(f"  {'FAILED' if found else 'ok':7}{name}", flush=True)
        problems += [f"{name}: {problem}" for problem in found]
    print(f"{count} points in worlds of 2, 4 and 8 ranks: {visited}")
    return problems


def check_start(program, library, what, code):
    """Before MPI begins: the others wait in MPI, where the project's time limits do not apply."""
    problems, cases, _, ended = run_job(program, library, f"1 {what} start", limit=60)
    said = "rank 1 is stopped in the start of MPI" if what == "stopped" else "rank 1 ended in the start of MPI"
    if ended != code or not cases or any(said not in case["reason"] for case in cases):
        problems.append(f"exit {ended}: {cases[:1]}")
    return problems


def check_descriptors(program):
    """An mpirun that gives up and does not end."""
    problems = []
    with Run("sh", ["-c", 'ulimit -n 32; exec "$@"', "sh", program, *JOB]) as run:
        if run.wait(90) is None:
            problems.append("did not end within 90 s")
        elif run.process.returncode == 0 and all(case["status"] == "pass" for case in run.cases()):
            pass  # MPICH needs fewer
        elif run.process.returncode not in (2, 3, 5, 6) or not run.gone_within(3):
            problems.append(f"exit {run.process.returncode}: {run.errors()[-300:]}")
        elif run.litter():
            problems.append(f"files left: {run.litter()}")
    return problems


def check_kept(program, library):
    """Cases finished before a rank died are kept."""
    arguments = ["verify", "byte_gpt_tiny", "--world", "mpi:3", "--stage", "1,2", "--dtype", "bf16", "--impl", "host",
                 "--windows", "off", "--comm-timeout", str(TIMEOUT), "--recipe", "adamw,lion,sgd,adam,sgd_ema"]
    problems, cases, _, code = run_job(program, library, "2 killed step 1500", arguments)
    counts = {}
    for case in cases:
        counts[case["status"]] = counts.get(case["status"], 0) + 1
    if code != 6 or counts.get("pass", 0) < 2 or counts.get("crashed", 0) < 1 or len(cases) != 10:
        problems.append(f"exit {code}: {counts}")
    return problems


def rows(program, library):
    for what in WHAT:
        for rank in (0, 2):
            for where in ("step", "collective"):
                yield f"{what}:{rank}:{where}", lambda w=what, r=rank, p=where: check(program, library, w, r, p)
    # The first message of a call; it has no others.
    yield "throws:1:message", lambda: check(program, library, "throws", 1, "step", 387, 2)
    yield "slow", lambda: check_slow(program, library)
    for what, code in {"stopped": 5, "exits-0": 6, "exits-3": 6, "killed": 6}.items():
        yield f"start:{what}", lambda w=what, c=code: check_start(program, library, w, c)
    yield "descriptors", lambda: check_descriptors(program)
    yield "kept", lambda: check_kept(program, library)


def main():
    program, library, chosen = sys.argv[1], sys.argv[2], sys.argv[3:]
    subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
    failed = 0
    if chosen[:1] in (["points"], ["slow"]) and len(chosen) == 2:
        problems = {"points": check_points, "slow": check_slow}[chosen[0]](program, library, int(chosen[1]))
        print(*problems, f"{len(problems)} problems", sep="\n")
        return 1 if problems else 0
    for name, row in rows(program, library):
        if chosen and not any(name.startswith(word) for word in chosen):
            continue
        begin = time.monotonic()
        problems = row()
        failed += 1 if problems else 0
        print(f"{'FAILED' if problems else 'ok':7}{name}  {time.monotonic() - begin:.1f} s", *problems, sep="\n  ",
              flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
