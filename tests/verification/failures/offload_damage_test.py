#!/usr/bin/env python3
"""A byte of offloaded state changes during a run: one sentence, exit 7, and no checkpoint after it.

offload_damage_test.py PROGRAM
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
TRAIN = ["train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", "100000", "--world", "threads:2",
         "--stage", "2", "--offload", "1", "--offload-grads", "on"]
SAID = {
    "state": r"zeroproof: chunk \d+ of the state offloaded to '.*' is not its version \d+ \(.*\); .*\n",
    "gradients": r"zeroproof: the gradients offloaded to '.*' have changed since they were summed, in elements \d+ to "
                 r"\d+ of the shard \(.*\); .*\n",
}


def files_of(process):
    """Descriptors of files without a name, by their size in bytes."""
    files = {}
    for entry in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if "/zeroproof-offload-" in os.readlink(entry):
                files.setdefault(os.stat(entry).st_size, []).append(entry)
        except FileNotFoundError:
            continue
    return files


def spoil(process, kind):
    """Changes a byte again and again until the run has ended. The state of two ranks is in files of the same size,
    and gradients in whole pages."""
    ends = time.monotonic() + 60
    value = 0
    while process.poll() is None and time.monotonic() < ends:
        files = files_of(process)
        wanted = [entries for size, entries in files.items() if (len(entries) > 2) == (kind == "state")]
        if len(files) < 2:
            time.sleep(0.01)
            continue
        try:
            with open(wanted[0][0], "r+b", buffering=0) as file:
                while process.poll() is None and time.monotonic() < ends:
                    value = (value + 1) % 251
                    os.pwrite(file.fileno(), bytes([value]), 100)
        except OSError:
            continue


def check(program, kind):
    with tempfile.TemporaryDirectory(prefix="zpf", dir=MEMORY) as folder:
        process = subprocess.Popen([program, *TRAIN, "--offload-place", f"file:{folder}"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            spoil(process, kind)
        finally:
            if process.poll() is None:
                process.kill()
            said = process.communicate()[1]
        problems = []
        if process.returncode != 7:
            problems.append(f"exit {process.returncode}")
        if not re.fullmatch(SAID[kind], said):
            problems.append(f"said {said.strip()[:600]!r}")
        if os.listdir(folder):
            problems.append(f"left {os.listdir(folder)}")
    return problems


def main():
    failed = 0
    for kind in SAID:
        problems = check(sys.argv[1], kind)
        failed += len(problems)
        print(f"{'FAILED' if problems else 'ok':7}{kind}", *problems, sep="\n  ", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
