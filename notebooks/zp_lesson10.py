"""Lesson 10: runs that stop and continue on other ranks, damaged states, and figures."""

import functools
import itertools
import json
import math
import pathlib
import re
import tempfile

import zp
import zp_draw as draw

import numpy as np

WORLDS = range(1, 7)
STOPPED, STEPS = 6, 60
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16")
_kept = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(_kept.name)


def resume_case(before, after, dtype="bf16"):
    """The id of a case: `before` ranks make three steps in stage 2, `after` ranks go on in stage 1."""
    return f"resume/adamw/{before}:2-to-{after}:1/{dtype}/contract-to-contract/after:3"


def resume_all_pairs(fault=""):
    """The report of all pairs of 1 to 6 ranks, and the status of each pair."""
    report = zp.verify(*[resume_case(*pair) for pair in itertools.product(WORLDS, WORLDS)], fault=fault)
    status = {case["id"]: case["status"] for case in report["cases"]}
    return report["cases"], {pair: status[resume_case(*pair)] for pair in itertools.product(WORLDS, WORLDS)}


def stage_of(ranks):
    return 1 + ranks % 3  # differs between W and W + 1


def _train(where, steps, ranks, *words):
    """Trains up to step `steps`: the losses, and the digest of master, state and parameters."""
    log = where / "log.jsonl"
    place = ("--checkpoint", where, "--world", f"threads:{ranks}", "--stage", stage_of(ranks))
    said = zp.run("train", *JOB, "--steps", steps, *place, *words)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line], re.search(r"^state (\w+)", said, re.M)[1]


@functools.lru_cache(None)
def uninterrupted(seed=1):
    """Losses of 60 steps on one rank, and the digest at their end."""
    return _train(FOLDER / f"seed {seed}", STEPS, 1, "--seed", seed)


@functools.lru_cache(None)
def _stopped():
    """The folder of a run on five ranks that stopped after step 6."""
    _train(FOLDER / "five", STOPPED, 5)
    return FOLDER / "five"


@functools.lru_cache(None)
def resharded(ranks):
    """The files of the stopped run for another number of ranks."""
    other = FOLDER / f"for {ranks}"
    zp.run("checkpoint", "reshard", _stopped(), "--world", f"threads:{ranks}", "-o", other)
    assert zp.run("checkpoint", "diff", _stopped(), other).splitlines()[-1].startswith("0 of ")
    return other


@functools.lru_cache(None)
def pieces(ranks):
    """Pieces of the masters in a checkpoint's manifest: (rank, first element, length), in order of elements."""
    manifest = json.loads((resharded(ranks) / f"step-{STOPPED:08}" / "manifest.json").read_text())["manifest"]
    rank = [int(re.search(r"\d+", file["name"])[0]) for file in manifest["files"]]
    begins = np.cumsum([0] + [math.prod(tensor["shape"]) for tensor in manifest["tensors"]]).tolist()
    return sorted(((rank[piece["file"]], begins[piece["tensor"]] + piece["first"], piece["numel"])
                   for piece in manifest["pieces"] if piece["state"] == "master"), key=lambda piece: piece[1])


def ranges_of(ranks, owner):
    """The ranges (begin, end) of the masters of a rank, neighbouring pieces joined."""
    joined = []
    for rank, begin, numel in pieces(ranks):
        if rank == owner and joined and joined[-1][1] == begin:
            joined[-1] = joined[-1][0], begin + numel
        elif rank == owner:
            joined.append((begin, begin + numel))
    return joined


@functools.lru_cache(None)
def resume(ranks):
    """The digest after step 60 of the stopped run, continued on these ranks."""
    return _train(resharded(ranks), STEPS, ranks, "--resume")[1]


@functools.lru_cache(None)
def state():
    """Masters and moments of the stopped run, as `zeroproof checkpoint export` writes them."""
    path = FOLDER / "state.safetensors"
    zp.run("checkpoint", "export", _stopped() / f"step-{STOPPED:08}", "-o", path)
    return zp.tensors(path)


def _import(name, tensors):
    """A checkpoint folder with these tensors instead of the stopped run's."""
    zp.write_tensors(FOLDER / f"{name}.safetensors", tensors, **state().metadata)
    folder = FOLDER / name
    zp.run(
    "checkpoint",
    "import",
    FOLDER /
    f"{name}.safetensors",
    "--like",
    _stopped() /
    f"step-{STOPPED:08}",
    "-o",
     folder)
    return folder


def _right():
    """Losses after the stop, and the end, of the run without a stop."""
    losses, end = uninterrupted()
    return np.array(losses)[STOPPED:], end


def resume_with(tensors):
    """A resume with other tensors: the differences of its losses, and whether its end is the correct one."""
    losses, end = _train(_import(f"damaged {next(_count)}", tensors), STEPS, 2, "--resume")
    return np.abs(np.array(losses) - _right()[0]), end == _right()[1]


_count = itertools.count()


def spread_of_seeds():
    """Differences of the losses of three other seeds from the correct ones, after the resume."""
    return np.abs(np.array([uninterrupted(seed)[0][STOPPED:] for seed in (2, 3, 4)]) - _right()[0])


def masters(tensors):
    return {key: value for key, value in tensors.items() if key.startswith("master.")}


def changed_elements(tensors):
    return sum(zp.different(tensors[key], state()[key]) for key in state())


def step_after(tensors):
    """How far each master moves in the step after a resume with these tensors, and its second moment."""
    folder = _import("leap", tensors)
    after = zp.file_of("train", *JOB, "--steps", STOPPED + 1, "--resume", "--checkpoint", folder,
                       "--world", "threads:2", option="--dump")
    names = [key[len("master."):] for key in masters(state())]
    old, new, v = [np.concatenate([dump[buffer + name].ravel() for name in names]) for dump, buffer in (
        (state(), "master."), (after, f"master.{STOPPED + 1}."), (after, f"exp_avg_sq.{STOPPED + 1}."))]
    return np.abs(new - old), v


def resume_fault():
    return zp.verify(resume_case(3, 3, "fp16"), fault="?10")["cases"][0]


# ---------------------------------------------------------------- blanks


def needed(begin, end, files):
    parts = []
    for rank, first, numel in files:
        low, high = max(begin, first), min(end, first + numel)
        if low < high:
            parts.append((rank, low, high))
    return parts


def omit(tensors, buffer):
    return {name: np.zeros_like(value) if name.startswith(buffer + ".") else value for name, value in tensors.items()}


_FILES = [(1, 0, 4), (0, 4, 2), (2, 6, 4)]
_STATE = {name: np.array([1.5, -2], np.float32) for name in ("master.w", "exp_avg.w", "exp_avg_sq.w", "exp_avg.b")}
blank = zp.Blanks({
    needed: [(f"elements [{begin}, {end}) of files {_FILES}", begin, end, list(_FILES))
             for begin, end in ((0, 4), (3, 7), (5, 10), (4, 6), (2, 2))],
    omit: [(f"without {buffer}", dict(_STATE), buffer) for buffer in ("exp_avg", "exp_avg_sq", "master")]})

# ---------------------------------------------------------------- figures


def draw_pairs(status):
    fig, axes = draw.figure(height=3.0)
    for (before, after), verdict in status.items():
        good = verdict == "pass"
        draw.box(axes, after - 0.46, -before - 0.44, 0.92, 0.88, "#cfe3d8" if good else draw.WRONG,
                 "equal" if good else "differs", edgecolor="white")
    axes.set(xlim=(0.5, 6.5), ylim=(-6.5, -0.5), xlabel="ranks after the resume", ylabel="ranks before")
    axes.spines[:].set_visible(False)
    axes.set_xticks(WORLDS)
    axes.set_yticks([-world for world in WORLDS], WORLDS)
    axes.tick_params(length=0)
    draw.show(fig, "A table of 6 by 6 pairs of numbers of ranks before and after the resume: every result is equal.")


def draw_pieces(worlds=(5, 3)):
    """Strips of the masters in the colours of their ranks."""
    numel = sum(length for _, _, length in pieces(worlds[0]))
    strips = []
    for ranks in worlds:
        owner = np.zeros(numel)
        for rank, begin, length in pieces(ranks):
            owner[begin:begin + length] = rank
        strips.append(owner)
    fig, _ = draw.owner_strips(strips, [f"{ranks} ranks" for ranks in worlds], "element of the master")
    draw.show(fig, "Strips of the master weights on five and on three ranks, each element in the colour of its rank.")


def draw_losses(curves, spread):
    fig, axes = draw.figure(height=3.6)
    steps = np.arange(STOPPED + 2, STEPS + 1)
    for (name, curve), color in zip(curves.items(), ("#000000", "#6b6b6b", draw.WRONG)):
        axes.plot(steps, curve[1:], label=name, color=color, linestyle="-")
    axes.plot(steps, np.median(spread, axis=0)[1:], label="two seeds (median)", color=draw.RANKS[0], linestyle="--")
    axes.set(yscale="log", xlabel="step", ylabel="difference of losses", ylim=(1e-7, 3e4))
    axes.legend(loc="upper right", ncols=2)
    draw.show(fig, "The difference of losses after a damaged resume: with a rounded master two to three orders of "
                   "magnitude below that of two seeds, without the first moment about equal to it, without the "
                   "second far above.")


def draw_moves(moved, unseen):
    fig, axes = draw.figure(height=2.8)
    bins = np.geomspace(1e-7, max(moved.max(), 1) * 1.2, 60)
    axes.hist([moved[~unseen], moved[unseen]], bins, stacked=True, color=["#6b6b6b", draw.WRONG],
              label=["gradient not 0", "gradient 0"])
    axes.set(xscale="log", xlabel=f"move of a parameter in step {STOPPED + 1}", ylabel="parameters")
    axes.legend(loc="upper left")
    draw.show(fig, "A histogram of the moves in the step after a resume without the second moment: parameters whose "
                   "gradient is 0 move furthest, by orders of magnitude.")
