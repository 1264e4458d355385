"""Who is timed: peers, which wait between the rounds, and our programs, which are started for every sample."""

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from peer.install import last_line
from peer.say import Problem

LOCAL = {"torch-fused": "torch, fused AdamW", "torch-foreach": "torch, foreach AdamW",
         "deepspeed": "DeepSpeed CPU Adam"}
RANKED = {"ddp": "DDP over gloo, fused AdamW", "zero": "ZeroRedundancyOptimizer, gloo"}
PAGES = {"": {}, ", 2 MiB pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}}
MIB_NUMEL = 1 << 18  # parameters of one MiB, in which zeroproof-bench-ranks counts


class Peer:
    """Processes of peer_worker.py, as many as ranks, that wait between the rounds."""

    def __init__(self, flow, pages, options, case, world=1):
        self.name = (LOCAL | RANKED)[flow] + pages
        self.flow = flow
        self.folder = Path(tempfile.mkdtemp(dir=case.parent))
        self.workers = []
        threads = options.threads if world == 1 else 1
        path = f"{options.venv / 'bin'}:{os.environ['PATH']}"
        environment = os.environ | PAGES[pages] | {
            "OMP_NUM_THREADS": str(threads), "PATH": path, "DS_ACCELERATOR": "cpu",
            "TORCH_EXTENSIONS_DIR": str(options.venv.resolve() / "ops"), "GLOO_SOCKET_IFNAME": "lo"}
        for rank in range(world):
            settings = {"flow": flow, "case": str(case), "threads": threads, "rank": rank, "world": world,
                        "meeting": f"file://{self.folder}/meeting"}
            with open(self.folder / f"errors.{rank}", "w", encoding="utf-8") as errors:
                self.workers.append(subprocess.Popen(
                    [options.venv / "bin/python", "-B", Path(__file__).with_name("worker.py"), json.dumps(settings)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment))
        self.unavailable = next((a["unavailable"] for a in self.answers() if "unavailable" in a), "")

    def answers(self):
        found = []
        for rank, worker in enumerate(self.workers):
            line = worker.stdout.readline()
            ended = f"its process ended: {last_line(self.folder / f'errors.{rank}')}" if not line else ""
            found.append({"unavailable": ended} if ended else json.loads(line))
        return found

    def ask(self, **command):
        for worker in self.workers:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write(json.dumps(command) + "\n")
                worker.stdin.flush()
        answers = self.answers()
        for answer in answers:
            if "unavailable" in answer:
                raise Problem(1, f"{self.name} stopped: {answer['unavailable']}", "its steps cannot be timed",
                              "leave it out with --peers")
        return answers

    def check(self):
        return self.ask(do="check")[0]

    def sample(self, count):
        return [max(of_ranks) for of_ranks in zip(*(a["seconds"] for a in self.ask(do="steps", count=count)))]

    def stop(self):
        for worker in self.workers:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
            try:
                worker.wait(timeout=20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def run_ours(command, environment, folder):
    """The record of a run."""
    record = folder / "record.json"
    done = subprocess.run([*command, "--json", record], capture_output=True, text=True, env=os.environ | environment,
                          check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        last = said[-1] if said else "nothing was said"
        raise Problem(1 if done.returncode == 1 else 3,
                      f"{Path(command[0]).name} ended with {done.returncode}: {last}",
                      "peers are compared with it", "run it by itself: " + " ".join(map(str, command)))
    return json.loads(record.read_text(encoding="utf-8"))


def local_command(options, tensors, rounds, micro_batches=1):
    return [options.build / "zeroproof-bench", "--rows", "product", "--numel", str(options.numel),
            "--tensors", str(tensors), "--micro-batches", str(micro_batches), "--rounds", str(rounds),
            "--threads", str(options.threads)]


def sample_local(options, tensors, pages, folder):
    record = run_ours(local_command(options, tensors, options.steps), PAGES[pages], folder)
    return {"ours" + pages: record["product"][0]["samples_s"]}


def sample_ranked(options, ranks, folder):
    command = [options.build / "zeroproof-bench-ranks", "--ranks", str(ranks), "--malloc", "installed", "--mib",
               str(options.numel // MIB_NUMEL), "--rounds", str(options.steps)]
    rows = run_ours(command, {}, folder)["rows"]
    return {f"ours: {row['name']}": row["samples_s"] for row in rows if row["name"].startswith("product, ")}
