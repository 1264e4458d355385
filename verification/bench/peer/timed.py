"""Rounds of peers, which wait between the rounds, and of zeroproof-bench, which is started for every sample."""

import contextlib
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

from peer.install import last_line, prepare_venv
from peer.report import Problem, say, table

LOCAL = {"torch-fused": "torch, fused AdamW", "torch-foreach": "torch, foreach AdamW",
         "deepspeed": "DeepSpeed CPU Adam"}
RANKED = {"ddp": "DDP over gloo, fused AdamW", "zero": "ZeroRedundancyOptimizer, gloo"}
MUON = {"torch-muon": "torch, Muon and fused AdamW", "torch-muon-fp32": "the same, factors fp32"}
FLOWS = LOCAL | RANKED | MUON
# Our rows, of zeroproof-bench muon, and the shape of Newton-Schulz alone.
MUON_ROWS = {"step": ("step", None), "newton_schulz 1024x1024": ("newton_schulz 1024x1024", [1024, 1024]),
             "newton_schulz 1031x509": ("newton_schulz 1031x509", [1031, 509])}
PAGES = {"": {}, ", 2 MiB pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}}
MIB_NUMEL = 1 << 18  # parameters of one MiB, in which zeroproof-bench ranks counts


class Peer:
    """Processes of worker.py, as many as ranks, that wait between the rounds."""

    def __init__(self, flow, pages, options, case, world=1):
        self.name = FLOWS[flow] + pages
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

    def sample(self, count, shape=None):
        what = {"do": "newton_schulz", "shape": shape} if shape else {"do": "steps"}
        return [max(of_ranks) for of_ranks in zip(*(a["seconds"] for a in self.ask(count=count, **what)))]

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
        last = said[-1] if said else "no output"
        raise Problem(1 if done.returncode == 1 else 3,
                      f"{Path(command[0]).name} ended with {done.returncode}: {last}",
                      "peers are compared with it", "run it by itself: " + " ".join(map(str, command)))
    return json.loads(record.read_text(encoding="utf-8"))


def local_command(options, tensors, rounds, micro_batches=1):
    return [options.build / "zeroproof-bench", "product", "--numel", str(options.numel),
            "--tensors", str(tensors), "--micro-batches", str(micro_batches), "--rounds", str(rounds),
            "--threads", str(options.threads)]


def sample_local(options, tensors, pages, folder):
    record = run_ours(local_command(options, tensors, options.steps), PAGES[pages], folder)
    return {"ours" + pages: record["product"][0]["samples_s"]}


def sample_ranked(options, ranks, folder):
    command = [options.build / "zeroproof-bench", "ranks", "--ranks", str(ranks), "--malloc", "installed", "--mib",
               str(options.numel // MIB_NUMEL), "--rounds", str(options.steps)]
    rows = run_ours(command, {}, folder)["rows"]
    return {f"ours: {row['name']}": row["samples_s"] for row in rows if row["name"].startswith("product, ")}


def measure(title, options, own, flows, case, world, gone):
    """own: functions that each return the seconds of one or more of our rows. Returns the group's record."""
    peers, rows, checks = [], {}, {}
    try:
        for flow in flows:
            for pages in PAGES:
                name = FLOWS[flow] + pages
                if flow in gone:
                    checks[name] = {"unavailable": gone[flow]}
                    continue
                say(f"{title}: {name} starts")
                peer = Peer(flow, pages, options, case, world)
                peers.append(peer)
                checks[name] = {"unavailable": peer.unavailable} if peer.unavailable else peer.check()
        timed = [peer for peer in peers if "ok" in checks[peer.name]]
        for number in range(options.rounds):
            say(f"{title}: round {number + 1} of {options.rounds}")
            turns = own + timed
            random.Random(number).shuffle(turns)
            for turn in turns:
                found = {turn.name: turn.sample(options.steps)} if isinstance(turn, Peer) else turn()
                for name, seconds in found.items():
                    rows.setdefault(name, []).append(seconds)
    finally:
        for peer in peers:
            peer.stop()
    order = sorted(name for name in rows if name.startswith("ours")) + [name for name in checks if name in rows]
    return {"title": title, "rows": {name: rows[name] for name in order}, "checks": checks}


def sample_muon(options, folder):
    """Our rows of every kind, factors bf16 as "ours" and fp32 beside it, and the share of the fp32 peak."""
    record = run_ours([options.build / "zeroproof-bench", "muon", "--rounds", str(options.steps), "--threads",
                       str(options.threads)], {}, folder)
    rows = {row["name"]: row for group in record["groups"] for row in group["rows"]}
    return {kind: {"ours": rows[name + (", factors bf16" if kind == "step" else "")],
                   "ours, factors fp32": rows[name + ", factors fp32"]} for kind, (name, _) in MUON_ROWS.items()}


def measure_muon(options, flows, folder):
    """The groups of whole steps and of Newton-Schulz alone; our rows of a round come from one process."""
    case = folder / "muon.safetensors"
    say("muon: ours makes the numbers that all start from")
    run_ours([options.build / "zeroproof-bench", "muon", "--rounds", "1", "--threads", str(options.threads), "--save",
              case], {}, folder)
    peers = [Peer(flow, "", options, case) for flow in flows]
    groups = {kind: {"title": f"muon, {kind}, {options.threads} thread{'' if options.threads == 1 else 's'}",
                     "rows": {}, "checks": {}} for kind in MUON_ROWS}
    try:
        for peer in peers:
            groups["step"]["checks"][peer.name] = (
                {"unavailable": peer.unavailable} if peer.unavailable else peer.check())
        for number in range(options.rounds):
            say(f"muon: round {number + 1} of {options.rounds}")
            turns = [None, *(peer for peer in peers if not peer.unavailable)]
            random.Random(number).shuffle(turns)
            for turn in turns:
                ours = sample_muon(options, folder) if turn is None else {}
                for kind, (_, shape) in MUON_ROWS.items():
                    found = {turn.name: turn.sample(options.steps, shape)} if turn else {
                        name: row["samples_s"] for name, row in ours[kind].items()}
                    for name, seconds in found.items():
                        groups[kind]["rows"].setdefault(name, []).append(seconds)
                    for name, row in ours.get(kind, {}).items():
                        if "ratio_per_round" in row:
                            groups[kind].setdefault("of_fp32_peak", {}).setdefault(name, []).append(
                                row["ratio_per_round"])
    finally:
        for peer in peers:
            peer.stop()
    for group in groups.values():
        order = sorted(group["rows"], key=lambda name: (not name.startswith("ours"), name))
        group["rows"] = {name: group["rows"][name] for name in order}
    return list(groups.values())


def run_groups(options, folder):
    gone = prepare_venv(options.venv, options.peers)
    local = [flow for flow in LOCAL if flow in options.peers]
    ranked = [flow for flow in RANKED if flow in options.peers]
    muon = [flow for flow in MUON if flow in options.peers]
    groups = measure_muon(options, muon, folder) if muon else []
    for group in groups:
        print(table(group), flush=True)

    def run(title, own, flows, tensors, world):
        case = folder / "case.safetensors"
        say(f"{title}: ours makes the numbers that all start from")
        run_ours([*local_command(options, tensors, 1, world), "--save", case], {}, folder)
        groups.append(measure(title, options, own, flows, case, world, gone))
        print(table(groups[-1]), flush=True)

    for tensors in options.tensors if local or ranked else []:
        shape = f"{options.numel:,} parameters, {tensors:,} tensor{'' if tensors == 1 else 's'}"
        if local:
            run(f"{shape}, {options.threads} thread{'' if options.threads == 1 else 's'}",
                [lambda tensors=tensors, pages=pages: sample_local(options, tensors, pages, folder) for pages in PAGES],
                local, tensors, 1)
        for ranks in options.ranks if ranked else []:
            run(f"{shape}{'' if tensors == 1 else ' (ours: 1)'}, {ranks} processes of one thread",
                [lambda ranks=ranks: sample_ranked(options, ranks, folder)], ranked, tensors, ranks)
    return groups
