#!/usr/bin/env python3
"""Judges training runs of real releases that have a public defect, and of releases or programs that have not.

judge_releases.py [ROW...] [--environments FOLDER] [--recordings FOLDER] [--list]

Without a ROW all of them. Each row trains twice on two ranks over gloo, with the affected and the right side, and
shows what `zeroproof judge-run` says of both. Releases are installed from PyPI into --environments, once; a release of
PyTorch has 5 GB. The Python that runs this has zproof and torch.

Exit status: 0 every affected run is wrong in the expected phase and every other one is right, 1 one is not, 2 a bad
argument, 3 a release cannot be installed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEEPSPEED_NEEDS = ["einops", "hjson", "msgpack", "ninja", "packaging", "psutil", "py-cpuinfo", "pydantic", "setuptools", "tqdm"]


@dataclass(frozen=True)
class Defect:
    """A public defect: its thread, the phase that is wrong, and a run with it and without it.

    `affected` and `right` are a release ("deepspeed==0.18.5", or "" for the installed PyTorch) and the arguments of the
    training program.
    """
    name: str
    thread: str
    phase: str
    program: str
    affected: tuple[str, str]
    right: tuple[str, str]


DEFECTS = [
    Defect("deepspeed-7837", "deepspeedai/DeepSpeed#7837", "reduce", "train_deepspeed.py",
           ("deepspeed==0.18.5", "--stage 0"), ("deepspeed==0.18.6", "--stage 0")),
    Defect("deepspeed-7786", "deepspeedai/DeepSpeed#7786", "state", "train_deepspeed.py",
           ("deepspeed==0.18.3", "--stage 0 --resume"), ("deepspeed==0.18.6", "--stage 0 --resume")),
    Defect("deepspeed-7718", "deepspeedai/DeepSpeed#7718", "reduce", "train_deepspeed.py",
           ("deepspeed==0.17.6", "--stage 2 --accumulate 4"), ("deepspeed==0.18.3", "--stage 2 --accumulate 4")),
    Defect("deepspeed-6550", "deepspeedai/DeepSpeed#6550", "reduce", "train_deepspeed.py",
           ("deepspeed==0.18.6", "--stage 2 --accumulate 4 --offload"),
           ("deepspeed==0.19.8", "--stage 2 --accumulate 4 --offload")),
    Defect("deepspeed-8382", "deepspeedai/DeepSpeed#8382", "reduce", "train_deepspeed.py",
           ("deepspeed==0.19.3", "--stage 2 --not-contiguous"), ("deepspeed==0.19.8", "--stage 2 --not-contiguous")),
    Defect("open-instruct-1498", "allenai/open-instruct#1498", "reduce", "train_deepspeed.py",
           ("deepspeed==0.19.8", "--stage 2 --by-hand 3"), ("deepspeed==0.19.8", "--stage 2 --accumulate 3")),
    Defect("pytorch-149768", "pytorch/pytorch#149768", "clip", "train_fsdp.py", ("torch==2.9.1", ""), ("", "")),
    Defect("loongforge-152", "baidu-baige/LoongForge#152", "clip", "train_fsdp.py", ("", "--norm local"), ("", "")),
]


def install(release, environments):
    """The folder on PYTHONPATH that has `release`; it is installed there if it is not."""
    folder = environments / release.replace("==", "-")
    if not folder.exists():
        print(f"installing {release} in {folder}", file=sys.stderr, flush=True)
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(unfinished)]
        if release.startswith("deepspeed"):  # with the torch that is here
            commands = [[*pip, *DEEPSPEED_NEEDS], [*pip, "--no-deps", "--no-build-isolation", "--upgrade", release]]
        else:
            commands = [[*pip, release, "numpy"]]
        for command in commands:
            environment = dict(os.environ, PYTHONPATH=f"{unfinished}:{os.environ.get('PYTHONPATH', '')}", DS_ACCELERATOR="cpu")
            if subprocess.run(command, env=environment, check=False).returncode != 0:
                print(f"judge_releases.py: pip cannot install {release}; PyPI has to be reachable", file=sys.stderr)
                sys.exit(3)
        unfinished.rename(folder)
    return folder


def train(defect, side, environments, recording):
    """Trains one side of a row; returns the text of a failure, or None."""
    release, arguments = side
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu")
    if release:
        folder = install(release, environments)
        environment["PYTHONPATH"] = f"{folder}:{environment.get('PYTHONPATH', '')}"
        environment["TORCH_EXTENSIONS_DIR"] = str(folder / "torch_extensions")
    run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                          str(HERE / defect.program), str(recording), *arguments.split()],
                         env=environment, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return None
    return (run.stdout + run.stderr)[-3000:] or f"exit code {run.returncode}"


def judged(recording):
    """Exit code of judge-run, its wrong phases in order, and the first hint."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run = subprocess.run([sys.executable, "-m", "zproof", "judge-run", str(recording), "--report", f"json:{report}"],
                             capture_output=True, text=True, check=False)
        if not report.exists():
            return run.returncode, [], run.stderr.strip()
        cases = json.loads(report.read_text())["cases"]
    wrong = [case for case in cases if case["status"] == "fail"]
    phases = list(dict.fromkeys(case["id"].split("/")[1] for case in wrong))
    hints = [case["divergence"]["hint"] for case in wrong if case["divergence"]["hint"]]
    return run.returncode, phases, hints[0] if hints else ""


def judge_side(defect, affected, environments, recordings):
    """Trains and judges one side, prints its line; returns whether the verdict is the expected one."""
    release, arguments = side = defect.affected if affected else defect.right
    recording = recordings / f"{defect.name}-{'affected' if affected else 'right'}"
    shutil.rmtree(recording, ignore_errors=True)
    began = time.monotonic()
    failure = train(defect, side, environments, recording)
    code, phases, hint = (None, [], failure) if failure else judged(recording)
    as_expected = (code == 1 and defect.phase in phases) if affected else code == 0
    verdict = "did not run" if failure else "right" if code == 0 else f"WRONG in {', '.join(phases)}" if phases else f"exit {code}"
    setting = " ".join(part for part in (release or "installed torch", arguments) if part)
    print(f"{defect.name:20}{setting:52} {verdict:24}{time.monotonic() - began:5.0f} s{'' if as_expected else '  NOT EXPECTED'}",
          flush=True)
    if hint:
        print(f"{'':20}{hint}", flush=True)
    return as_expected


def main():
    parser = argparse.ArgumentParser(description="Judges runs of releases with a public defect, and without it.")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--environments", type=Path, default=Path("releases"), metavar="FOLDER")
    parser.add_argument("--recordings", type=Path, default=Path("recordings"), metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="shows the rows and ends")
    given = parser.parse_args()
    named = {defect.name: defect for defect in DEFECTS}
    for name in given.rows:
        if name not in named:
            parser.error(f"there is no row {name!r}; the rows are {', '.join(named)}")
    chosen = [named[name] for name in given.rows] or DEFECTS
    if given.list:
        for defect in chosen:
            print(f"{defect.name:18}{defect.thread:32}{defect.phase}")
        return 0
    expected = [judge_side(defect, affected, given.environments.resolve(), given.recordings.resolve())
                for defect in chosen for affected in (True, False)]
    print(f"{sum(expected)} of {len(expected)} verdicts are the expected ones")
    return 0 if all(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
