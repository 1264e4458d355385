#!/usr/bin/env python3
"""A disk that is full, broken or read-only: one sentence with the reason, exit 2, and every earlier file as it was.

disk_test.py PROGRAM LIBRARY [ROW...]      LIBRARY is refuse.cpp, built
"""

import errno
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
TROUBLES = [
    ("write", "ENOSPC", 1), ("write", "EDQUOT", 1), ("write", "EIO", 1), ("write", "ENOSPC", 3), ("sync", "EIO", 1),
    ("sync", "ENOSPC", 1), ("make", "EROFS", 1), ("make", "EACCES", 1), ("make", "ENOSPC", 1), ("make", "EDQUOT", 1),
    ("rename", "EIO", 1), ("rename", "EDQUOT", 1),
]
KEPT = r"step-\d+(/|$)|LATEST$|lock$|log.jsonl$"  # of a run that reached this step
CASE = "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1"
TRAIN = ["train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps"]

# {out} is the folder that the disk refuses, {in} has files to begin with.
ROWS = {
    "verify-json": ["verify", "op/unscale", "--report", "json:{out}/file"],
    "verify-junit": ["verify", "op/unscale", "--report", "junit:{out}/file"],
    "verify-html": ["verify", "op/unscale", "--report", "html:{out}/file"],
    "verify-dump": ["verify", CASE, "--steps", "2", "--dump", "{out}/file"],
    "record": ["record", "{out}/file", "--workload", "byte_gpt_tiny", "--steps", "1"],
    "gen": ["gen", "unscale", "-o", "{out}/file"],
    "golden-record": ["golden", "record", "{out}/file", CASE, "--steps", "2"],
    "train-dump": [*TRAIN, "3", "--dump", "{out}/file"],
    "train-log": [*TRAIN, "3", "--log", "{out}/log.jsonl"],
    "train-checkpoint": [*TRAIN, "3", "--world", "threads:3", "--save-every", "1", "--resume", "--checkpoint",
                         "{out}"],
    "train-checkpoint-async": [*TRAIN, "3", "--world", "threads:2", "--save-every", "1", "--async", "--resume",
                               "--checkpoint", "{out}"],
    "train-offload": [*TRAIN, "3", "--offload", "0.5", "--offload-chunk", "3000", "--offload-place", "file:{out}"],
    "train-offload-grads": [*TRAIN, "3", "--offload", "1", "--offload-grads", "on", "--offload-place", "file:{out}"],
    "golden-update": ["golden", "update", "{out}/file", "--reason", "none"],
    "checkpoint-export": ["checkpoint", "export", "{in}/runs", "-o", "{out}/file"],
    "checkpoint-reshard": ["checkpoint", "reshard", "{in}/runs", "--world", "threads:2", "-o", "{out}"],
    "checkpoint-import": ["checkpoint", "import", "{in}/state", "--like", "{in}/runs", "-o", "{out}"],
}
# A job of MPI ranks has a folder in TMPDIR, which is {out} here.
MPI_ROWS = {
    "mpi-verify": ["verify", CASE.replace("self", "mpi:2"), "--report", "json:{in}/file"],
    "mpi-train": [*TRAIN, "3", "--world", "mpi:2", "--save-every", "1", "--resume", "--checkpoint", "{in}/runs"],
}
# Every call of a save of three ranks, until there are no more of its kind.
LATER = [(call, name, n) for call, name in [("write", "ENOSPC"), ("write", "EIO"), ("sync-once", "EIO"),
                                            ("make", "EDQUOT"), ("rename", "EIO")] for n in range(1, 25)]
LATER.append(("sync", "EIO", 1, "log.jsonl"))  # synced before the checkpoint that refers to its line
LOGS = ["train-log", "train-offload", "train-offload-grads"]
BEFORE = {"golden-update": ROWS["golden-record"]}
ONCE = ["golden-record", "checkpoint-reshard", "checkpoint-import"]  # over something of theirs they refuse themselves


def contents(folder):
    """Every file there is, by its name; empty folders by theirs."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
            for path in sorted(folder.rglob("*"))}


class Place:
    """Folders of one row."""

    def __init__(self, program, library):
        self.program, self.library = program, library
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="zpf", dir=MEMORY))
        self.given, self.out = self.folder / "in", self.folder / "out"
        self.given.mkdir()
        self.out.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, words, trouble=None, **variables):
        words = [word.format(**{"out": self.out, "in": self.given}) for word in words]
        environment = dict(os.environ, HOME="/proc", **variables)  # folders that are not writable
        environment.pop("CI", None)  # where it is set golden files are not renewed
        if trouble is not None:
            call, name, n, *file = trouble
            environment |= {"LD_PRELOAD": self.library,
                            "ZP_REFUSE": f"{call} {getattr(errno, name)} {n} {self.out.joinpath(*file)}"}
        return subprocess.run([self.program, *words], env=environment, capture_output=True, text=True, check=False,
                              timeout=120, stdin=subprocess.DEVNULL)


def problems_of(end, trouble, before, after):
    problems = []
    lines = end.stderr.splitlines()
    if end.returncode != 2:
        problems.append(f"exit {end.returncode}")
    if len(lines) != 1 or not re.fullmatch(r"zeroproof: .* \(.*\); .*", lines[0] if lines else ""):
        problems.append("not one sentence")
    if os.strerror(getattr(errno, trouble[1])) not in end.stderr:
        problems.append("does not print the error of the disk")
    for name, content in before.items():
        now = after.get(name, b"")
        grows = name.endswith("log.jsonl") or b'"bucket_numel"' in content  # a log
        if name not in ("lock", "LATEST") and now != content and not (grows and now.startswith(content)):
            problems.append(f"{name} has changed")
    if "LATEST" in after and after["LATEST"].decode().split()[0] not in after:
        problems.append("LATEST names a checkpoint that is not there")
    new = [name for name in after if name not in before and not re.match(KEPT, name)]
    if new:
        problems.append(f"left: {new}")
    return [f"{word}: {end.stderr.strip()[:400]}" for word in problems]


def check(program, library, name):
    """Every failure, in an empty folder and over files of an earlier run."""
    words = ROWS[name]
    problems, refused = [], 0
    for trouble in TROUBLES + (LATER if name == "train-checkpoint" else []):
        for earlier in (False,) if name in ONCE else (True,) if name in BEFORE else (True, False):
            with Place(program, library) as place:
                if "{in}" in " ".join(words):
                    place.run([*TRAIN, "2", "--checkpoint", "{in}/runs"])
                    place.run(["checkpoint", "export", "{in}/runs", "-o", "{in}/state"])
                if earlier:
                    first = [word if word != "3" or words[0] != "train" else "1" for word in words]
                    made = place.run(BEFORE.get(name, first))
                    if made.returncode not in (0, 1):
                        problems.append(f"undisturbed: exit {made.returncode} {made.stderr}")
                before = contents(place.out)
                end = place.run(words, trouble)
                if end.returncode == 0 and (trouble[2] > 1 or name in LOGS and trouble[0] in ("sync", "rename")):
                    continue  # no call failed: the command makes fewer calls, or none of this kind
                refused += 1
                found = problems_of(end, trouble, before, contents(place.out))
                if name.startswith("train-checkpoint") and (place.out / "LATEST").exists():
                    seen = place.run(["checkpoint", "verify", "{out}"])
                    if seen.returncode != 0:
                        found.append(f"checkpoint verify: {seen.stderr}")
                where = f"{' '.join(map(str, trouble))}, {'over' if earlier else 'without'} an earlier file"
                problems += [f"{where}: {word}" for word in found]
    return refused, problems


def check_space(program, library):
    """A full disk is reported before any file is created, also in a folder that does not exist yet."""
    problems, refused = [], 0
    for name in ("train-checkpoint", "checkpoint-reshard", "checkpoint-import"):
        for where in ("{out}", "{out}/new", "{out}/new/"):
            with Place(program, library) as place:
                place.run([*TRAIN, "2", "--checkpoint", "{in}/runs"])
                place.run(["checkpoint", "export", "{in}/runs", "-o", "{in}/state"])
                end = place.run([word.replace("{out}", where) for word in ROWS[name]], ("space", "ENOSPC", 1))
                refused += 1
                found = []
                if end.returncode != 2 or not re.fullmatch(
                        r"zeroproof: .* has 0 bytes of free space for \d+ bytes of state \(.*\); .*\n", end.stderr):
                    found.append(f"exit {end.returncode} {end.stderr.strip()[:400]}")
                if contents(place.out):
                    found.append(f"left: {list(contents(place.out))}")
                problems += [f"{name} into {where}: {word}" for word in found]
    return refused, problems


def check_job(program, library, name):
    """Before ranks begin there is one sentence; a note that cannot be written later has no effect."""
    problems, refused = [], 0
    for trouble in [("make", "EROFS", 1), ("make", "EACCES", 1), ("make", "ENOSPC", 2), ("write", "ENOSPC", 1)]:
        with Place(program, library) as place:
            end = place.run(MPI_ROWS[name], trouble, TMPDIR=str(place.out))
            refused += 1
            found = []
            if trouble[0] == "make" or name == "mpi-verify":
                found = problems_of(end, trouble, {}, contents(place.out))
            elif end.returncode != 0 or end.stderr:
                found = [f"exit {end.returncode}: {end.stderr}"]
            elif place.run(["checkpoint", "verify", "{in}/runs"]).returncode != 0 or contents(place.out):
                found = [f"left: {contents(place.out)}"]
            problems += [f"{' '.join(map(str, trouble))}: {word}" for word in found]
    return refused, problems


def main():
    program, library, chosen = sys.argv[1], sys.argv[2], sys.argv[3:]
    failed, count = 0, 0
    for name in [*ROWS, "space", *MPI_ROWS]:
        if name not in (chosen or [*ROWS, "space"]):
            continue
        if name == "space":
            refused, problems = check_space(program, library)
        else:
            refused, problems = (check if name in ROWS else check_job)(program, library, name)
        count += refused
        failed += len(problems)
        print(f"{'FAILED' if problems else 'ok':7}{name}, refused {refused} times", *problems, sep="\n  ", flush=True)
    print(f"{count} refusals, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
