#!/usr/bin/env python3
"""Times optimizer steps as users of PyTorch and DeepSpeed write them, in alternation with zeroproof's.

Every peer takes the same steps from the same numbers as zeroproof, and its parameters must agree with ours within a
bound; after that it is timed, a few steps in every round, and so are `zeroproof-bench product` and `zeroproof-bench
ranks`, in another order each round. Ratios are within rounds: time of the peer / time of ours. Every peer has a row as it is and
one with 2 MiB pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1).

PyTorch is installed from PyPI into a folder of its own; its wheel for x86-64 Linux brings the CUDA libraries along,
about 5.4 GB on disk. Nothing here uses them. Exit codes: 0 all peers that ran agree; 1 one does not, or ours is wrong;
2 bad usage; 3 something is missing.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree is not changed
from peer import self_check
from peer.install import DEEPSPEED, TORCH
from peer.report import Problem, numbers
from peer.timed import FLOWS, MIB_NUMEL, RANKED, run_groups

ROOT = Path(__file__).resolve().parents[2]


def parse(words):
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            raise Problem(2, message, "the command line was not understood", "see peers.py --help")

    parser = Parser(prog="peers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numel", type=int, default=1 << 24, help="parameters (default: 16777216)")
    parser.add_argument("--tensors", type=numbers, default=[1, 69], help="they are cut into (default: 1,69)")
    parser.add_argument("--ranks", type=numbers, default=[2, 4], help="processes of ddp and zero (default: 2,4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a row in a round (default: 5)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="of one process (default: all cores)")
    parser.add_argument("--peers", default=",".join(FLOWS), help="which (default: %(default)s)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where zeroproof-bench is (default: build/)")
    parser.add_argument("--venv", type=Path, help="where PyTorch is, or will be (default: peers/ in --build)")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--self-check", action="store_true", help="check this program itself, without PyTorch")
    options = parser.parse_args(words)
    options.peers = options.peers.split(",")
    options.venv = (options.venv or options.build / "peers").absolute()
    unknown = [name for name in options.peers if name not in FLOWS]
    if unknown:
        raise Problem(2, f"there is no peer {unknown[0]!r}", "only flows that are written down here can be timed",
                      "choose of " + ", ".join(FLOWS))
    for flag in ("numel", "rounds", "steps", "threads"):
        if getattr(options, flag) < 1:
            raise Problem(2, f"--{flag} is {getattr(options, flag)}", "there would be nothing to time",
                          "choose 1 or more")
    if options.numel % MIB_NUMEL and any(name in RANKED for name in options.peers):
        raise Problem(2, f"--numel is {options.numel}", f"zeroproof-bench ranks counts in MiB, {MIB_NUMEL} parameters",
                      "choose a multiple of that, or leave out ddp and zero")
    return options


def main(words):
    options = parse(words)
    if options.self_check:
        return self_check.run(parse)
    program = options.build / "zeroproof-bench"
    if not program.exists():
        raise Problem(3, f"{program} is not there", "peers are compared with it",
                      f"build it with: ninja -C {options.build} zeroproof-bench")
    if options.json:
        try:
            options.json.write_text("", encoding="utf-8")  # before the long part
        except OSError as error:
            raise Problem(2, f"{options.json} cannot be written: {error.strerror}", "the record would be lost",
                          "name a file in a folder that exists and is yours") from error
    with tempfile.TemporaryDirectory(prefix="zeroproof-peers-") as folder:
        groups = run_groups(options, Path(folder))
    if options.json:
        record = {"schema": "zeroproof-bench-peers/1", "numel": options.numel, "rounds": options.rounds,
                  "steps": options.steps, "threads": options.threads, "packages": [*TORCH, *DEEPSPEED],
                  "groups": groups}
        options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    wrong = any(not check.get("ok", True) for group in groups for check in group["checks"].values())
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        print(f"peers.py: {problem}", file=sys.stderr)
        sys.exit(problem.code)
    except KeyboardInterrupt:
        sys.exit(130)
