#!/usr/bin/env python3
"""Compares Muon of public packages on several ranks with the same package in one process.

judge_muon.py [ROW...] [--results FOLDER] [--list]

Without a ROW all of them. Each row takes three steps from the same matrices and gradients, once on the ranks of the row
over gloo and once in one process, and compares the matrices: the same bits, within the noise of bf16, or different; a
constant factor of all updates is named. The Python that runs this has PyTorch and the packages: pip install
muon-optimizer muon-fsdp2 emerging-optimizers deepspeed.

Exit status: 0 every verdict is the expected one, 1 one is not, 2 a bad argument, 3 PyTorch is missing.
"""

import argparse
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOISE = 0.1  # of an update, in bf16: three steps of a right one were up to 0.05 apart
LIMIT = 300  # seconds of one run; DeepSpeed compiles an extension in the first


@dataclass(frozen=True)
class Row:
    """A form of run_muon.py on `ranks`, the form in one process to compare it with, and the expected verdict."""
    name: str
    package: str
    form: str
    ranks: int
    single: str
    expected: str
    shapes: str = "even"


ROWS = [
    Row("torch-fsdp2", "torch", "torch-sharded", 2, "torch", "noise"),
    Row("keller-jordan", "muon-optimizer", "keller-jordan-ranks", 2, "keller-jordan", "bits", "odd"),
    Row("keller-jordan-shapes", "muon-optimizer", "keller-jordan-ranks", 2, "keller-jordan", "fails"),
    Row("keller-jordan-3-ranks", "muon-optimizer", "keller-jordan-ranks", 3, "keller-jordan", "fails", "odd"),
    Row("muon-fsdp2-single", "muon-fsdp2", "muon-fsdp2", 1, "keller-jordan", "fails"),
    Row("muon-fsdp2", "muon-fsdp2", "muon-fsdp2-sharded", 2, "muon-fsdp2-sharded", "bits"),
    Row("muon-fsdp2-odd", "muon-fsdp2", "muon-fsdp2-sharded", 2, "muon-fsdp2-sharded", "fails", "odd"),
    Row("emerging-duplicated", "emerging-optimizers", "emerging-duplicated", 2, "emerging", "bits"),
    Row("emerging-distributed", "emerging-optimizers", "emerging-distributed", 2, "emerging", "noise"),
    Row("deepspeed-zero-0", "deepspeed", "deepspeed-zero-0", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-1", "deepspeed", "deepspeed-zero-1", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-2", "deepspeed", "deepspeed-zero-2", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-3", "deepspeed", "deepspeed-zero-3", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-1-clip", "deepspeed", "deepspeed-zero-1-clip", 2, "deepspeed", "different"),
    Row("deepspeed-zero-2-clip", "deepspeed", "deepspeed-zero-2-clip", 2, "deepspeed", "different"),
    Row("deepspeed-zero-3-clip", "deepspeed", "deepspeed-zero-3-clip", 2, "deepspeed", "different"),
    Row("deepspeed-zero-2-accumulate", "deepspeed", "deepspeed-zero-2-accumulate", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-3-accumulate", "deepspeed", "deepspeed-zero-3-accumulate", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-2-scatter", "deepspeed", "deepspeed-zero-2-reduce-scatter", 2, "deepspeed", "bits"),
    Row("deepspeed-zero-3-scatter", "deepspeed", "deepspeed-zero-3-reduce-scatter", 2, "deepspeed", "fails"),
]


def run(form, ranks, shapes, results):
    """The file with the matrices, None if the run fails, and its last lines."""
    file = results / f"{form}.{shapes}.{ranks}.pt"
    log = file.with_suffix(".log")
    if not file.exists() and not log.exists():
        # Without torch.compile: the arithmetic is that of the Python text, and nothing is compiled for minutes.
        environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu",
                           TORCHDYNAMO_DISABLE="1", TORCH_EXTENSIONS_DIR=str(results / "torch_extensions"))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
                   str(HERE / "run_muon.py"), form, str(file), "--shapes", shapes]
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)  # torchrun ends its ranks, which have sessions of their own
                process.wait()
                out.write(f"Error: no end after {LIMIT} s\n")
    return (file if file.exists() else None), log.read_text(encoding="utf-8", errors="replace")


def reason(log):
    """The first error that is not the launcher's."""
    for line in log.splitlines():
        text = line.split("]: ")[-1].strip()
        if ("Error" in text or "assert" in text) and "ChildFailed" not in text and "Traceback" not in text:
            return text[:150]
    return "no message"


def compared(torch, files, shapes):
    """The verdict and its figure."""
    import run_muon
    masters, gradients = run_muon.drawn(run_muon.SHAPES[shapes])
    kept = (1 - run_muon.SETTINGS["lr"] * run_muon.SETTINGS["weight_decay"]) ** len(gradients)
    many, one = (torch.load(file) for file in files)
    if all(torch.equal(a, b) for a, b in zip(many, one)):
        return "bits", "the same bits"
    moved = [[after.double() - kept * master.double() for after, master in zip(run, masters)] for run in (many, one)]
    distances = [((a - b).norm() / b.norm()).item() for a, b in zip(*moved)]
    if max(distances) <= NOISE:
        return "noise", f"within the noise: updates are up to {max(distances):.1e} apart"
    factors = [((a * b).sum() / (b * b).sum()).item() for a, b in zip(*moved)]
    rests = [((a - f * b).norm() / a.norm()).item() for f, a, b in zip(factors, *moved)]
    text = f"updates are up to {max(distances):.2g} apart"
    if max(rests) <= NOISE and max(factors) - min(factors) <= 0.1 * max(factors):
        text += f": all are {sum(factors) / len(factors):.3f} times"
    return "different", text


def judge(torch, row, results):
    """Prints the line of a row; returns whether its verdict is the expected one."""
    file, log = run(row.form, row.ranks, row.shapes, results)
    if file is None:
        verdict, text = "fails", reason(log)
    else:
        single, log = run(row.single, 1, row.shapes, results)
        verdict, text = compared(torch, (file, single), row.shapes) if single else ("no reference", reason(log))
    try:
        package = f"{row.package} {version(row.package)}"
    except PackageNotFoundError:
        package = f"{row.package} is missing"
    as_expected = verdict == row.expected
    shown = verdict.upper() if verdict in ("fails", "different") else verdict
    print(f"{row.name:28}{package:28}{row.ranks} ranks  {shown}{'' if as_expected else '  NOT EXPECTED'}\n"
          f"{'':28}{text}", flush=True)
    return as_expected


def main():
    parser = argparse.ArgumentParser(description="Compares Muon of packages on several ranks with one process.")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--results", type=Path, default=Path("muon-results"), metavar="FOLDER",
                        help="finished runs are kept there and not repeated")
    parser.add_argument("--list", action="store_true", help="shows the rows and ends")
    given = parser.parse_args()
    named = {row.name: row for row in ROWS}
    for name in given.rows:
        if name not in named:
            parser.error(f"there is no row {name!r}; the rows are {', '.join(named)}")
    chosen = [named[name] for name in given.rows] or ROWS
    if given.list:
        for row in chosen:
            print(f"{row.name:28}{row.package:24}{row.ranks} ranks, expected: {row.expected}")
        return 0
    try:
        import torch
    except ImportError as error:
        print(f"judge_muon.py: PyTorch is not here ({error}); pip install torch", file=sys.stderr)
        return 3
    given.results.mkdir(parents=True, exist_ok=True)
    right = [judge(torch, row, given.results.resolve()) for row in chosen]
    print(f"{sum(right)} of {len(right)} verdicts are the expected ones")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
