# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11. Overlap
#
# **Question.** Gradients are reduced while layers still compute. With two concurrent streams, how
# can the result be guaranteed?
#
# 25 minutes. No time is measured here: a race that did not occur today proves nothing. Here is a
# plan of two *streams*. Each stream executes its own operations in order, and the only order
# between streams are *waits*. The backward pass of three units fills gradients, and a second stream
# adds them; there is memory for two gradients, A and B, so unit 0 reuses A.
#
# **Guess first.** Five waits. In how many different orders can the seven operations run? How many
# different results are there?

# %%
import gzip
import json
import math
import pathlib
import re
import tempfile
import textwrap

import zp  # first: reports missing packages

import numpy as np

#       name            stream    reads         writes
PLAN = [("backward 2", "compute", (), ("A",)),
        ("reduce 2", "comm", ("A",), ("sum 2",)),
        ("backward 1", "compute", (), ("B",)),
        ("reduce 1", "comm", ("B",), ("sum 1",)),
        ("backward 0", "compute", (), ("A",)),
        ("reduce 0", "comm", ("A",), ("sum 0",)),
        ("update", "compute", ("sum 2", "sum 1", "sum 0"), ())]
WAITS = [("reduce 2", "backward 2"), ("reduce 1", "backward 1"), ("reduce 0", "backward 0"),
         ("backward 0", "reduce 2"), ("update", "reduce 0")]  # (operation, the one it waits for)


def timings(waits, done=()):
    """Every order in which the operations can run."""
    if len(done) == len(PLAN):
        yield done
    for stream in ("compute", "comm"):
        left = [op for op in PLAN if op[1] == stream and op not in done]
        finished = [op[0] for op in done]
        if left and all(other in finished for who, other in waits if who == left[0][0]):
            yield from timings(waits, (*done, left[0]))


def outcome(order):
    """Inputs of the update in this order. Memory is NaN before it is written."""
    memory, seen = dict.fromkeys(("A", "B", "C", "sum 0", "sum 1", "sum 2"), "NaN"), None
    for name, _, reads, writes in order:
        if name == "update":
            seen = tuple(memory[buffer] for buffer in reads)
        for buffer in writes:
            memory[buffer] = memory[reads[0]] if reads else "gradient " + name[-1]
    return seen


waits = zp.given("11.1", WAITS, WAITS[:3] + WAITS[4:])
orders = list(timings(waits))
outcomes = {outcome(order) for order in orders}
print(f"orders: {len(orders)}, outcomes: {len(outcomes)}")
for seen in sorted(outcomes):
    print("inputs of the update:", ", ".join(seen))
zp.claim("11.1", len(orders) > 1 and outcomes == {("gradient 2", "gradient 1", "gradient 0")},
         "with all of its waits the plan can run in several orders, and has one outcome")

# %% [markdown]
# Enumerating all orders is possible for seven operations. For a real plan there is a shorter check
# that enumerates nothing: which operation *must* precede which, by stream, by wait, or by a chain
# of these. Two operations that access the same memory, at least one of them writing, must be
# ordered in this sense; otherwise they *race*.
#
# **Guess first.** Remove one wait. For which of the five is the result still correct in every
# timing?


# %%
def audit(waits):
    """The first two unordered operations that access a buffer, one of them writing, or None."""
    before = {}
    for i, (name, stream, *_) in enumerate(PLAN):
        direct = [op[0] for op in PLAN[:i] if op[1] == stream] + [other for who, other in waits if who == name]
        before[name] = set(direct).union(*[before.get(other, ()) for other in direct])
        for earlier, _, reads, writes in PLAN[:i]:
            clash = set(writes) & {*PLAN[i][2], *PLAN[i][3]} | set(reads) & set(PLAN[i][3])
            if clash and earlier not in before[name]:
                return earlier, name, clash.pop()
    return None


rows, agree = [], []
for wait in WAITS + zp.given("11.2", [], [("update", "reduce 1")]):
    left = [other for other in WAITS if other != wait]
    orders = list(timings(left))
    outcomes, race = {outcome(order) for order in orders}, audit(left)
    agree.append(len(outcomes) > 1 and race is not None)
    held = sorted({f"sum {unit}: {value}" for seen in outcomes for unit, value in zip("210", seen)
                   if value[-1] != unit})
    rows.append((f"{wait[0]}, for {wait[1]}", len(orders), len(outcomes), "; ".join(held),
                 "{} and {}, on {}".format(*race) if race else "none"))
zp.table(("omitted wait", "orders", "outcomes", "wrong", "race found by the audit"), *rows)
zp.claim("11.2", all(agree) and audit(WAITS) is None,
         "if any one wait is omitted there is a second outcome, and the audit names two "
         "operations that race")

# %% [markdown]
# None of the five is redundant. In the third and fourth row a sum may hold *another unit's*
# gradient, finite and plausible, and in the fourth only if the network is slow.
#
# Production makes such a plan for every pass (`cuda/optimizer/overlap/step_plan.hpp`), and audits
# it before execution. Here the first wait of a reduction is omitted, as in a public library.

# %%
RUN = ("byte_gpt_tiny", "--recipe", "adamw", "--world", "threads:3", "--stage", 3)


def report_of(program, *words):
    """The report of `program verify words...`, for any verdict."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "report.json")
        zp.run("verify", *words, "--report", f"json:{path}", name=program, may_end_with=(0, 1, 9))
        return json.loads(path.read_text())


fault = zp.given("11.3", "reduction-does-not-wait", "buffer-reused-in-flight")
host = (*RUN, "--dtype", "fp16", "--impl", "host")
alone, beside = [report_of("zeroproof", *host, *more)["cases"][0] for more in ((), ("--overlap",))]
refused = report_of("zeroproof-faults", *host, "--overlap", "--fault", fault)["cases"][0]
for name, case in (("sequential", alone), ("overlapped", beside)):
    print(f"{name:<18}{case['status']}, {case['training']['trajectory_hash']}")
said = f"{'a wait omitted':<18}{refused['status']}: {refused['reason']}"
print(textwrap.fill(said, 110, subsequent_indent=18 * " "))
named = re.search(r"(\w+ of unit \d+) \(operation \d+, compute stream\) and (\w+ of bucket \d+) \(operation \d+, comm",
                  refused["reason"])
zp.claim("11.3", alone["training"]["trajectory_hash"] == beside["training"]["trajectory_hash"]
         and beside["status"] == "pass" and refused["status"] == "error" and named is not None,
         "overlap changes no bit, and a plan without one wait is rejected before it runs, with "
         "both operations named")
records = zp.HERE.parent / "verification" / "bench" / "records"
kept = re.search(r"^\| streams \|(.*)\|(.*)\|$", (records / "README.md").read_text(), re.M)
print("\non a GPU, as recorded:", kept[1].strip() + "\n ", kept[2].strip())

# %% [markdown]
# GPUs have streams too. For machines without one there is a simulated device: the same kernels,
# compiled for the CPU, and streams that run when the host waits, in one of two orders. `device`
# runs phase by phase, `device-fused` in two passes, `device-graph` enqueues whole steps without
# intermediate results on the host.
#
# **Guess first.** Other kernels, other passes, two streams, a graph. How many different results?

# %%
short = ("byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16", "--stage", 2, "--world", "threads:2", "--steps", 2,
         "--micro-batches", 4)
rows, hashes = [], set()
for program, implementation in (("zeroproof", "host"), ("zeroproof-sim", "device"), ("zeroproof-sim", "device-fused"),
                      ("zeroproof-sim", "device-graph")):
    broken = zp.given("11.4", (), ("--fault", "gather-not-waited-for")) if implementation == "device-graph" else ()
    more = ("--overlap",) if implementation == "device-graph" else ()
    words = (*short, "--impl", implementation, *more, *broken)
    case = report_of("zeroproof-faults" if broken else program, *words)["cases"][0]
    hashes.add(case["training"]["trajectory_hash"] if case["status"] == "pass" else case["status"])
    rows.append((" ".join((implementation, *more)), case["status"], f"{case['compared']:,}", case["differing"]))
zp.table(("implementation", "verdict", "compared", "differing"), *rows)
print("trajectory:", ", ".join(sorted(hashes)))
zp.claim("11.4", len(hashes) == 1 and all(row[1:4:2] == ("pass", 0) for row in rows),
         "the simulated device equals the reference in every bit: phase by phase, in two passes, "
         "and as a graph")

# %% [markdown]
# Last, where the time goes. An update is a few operations per element, and a processor executes
# them while it waits for memory. So the number of bytes counts: how often arrays are read and
# written. Here is a step as seven passes, one for each phase, and six changes. Each change keeps a
# value in registers instead of storing it and reading it again.
#
# **Guess first.** fp32 gradient, master and two moments, bf16 parameters. How many bytes per
# element do seven passes read and write, and how many do two?

# %%
SCALE, LR, B1, B2, EPS, DECAY = map(np.float32, (0.25, 1e-3, 0.9, 0.95, 1e-8, 1e-5))
ONE = np.float32(1)
random = np.random.RandomState(1)
START = {"grad": random.randint(-999, 999, 4096), "master": random.randint(-999, 999, 4096),
         "exp_avg": random.randint(-99, 99, 4096), "exp_avg_sq": random.randint(0, 99, 4096)}


class Memory:
    """Arrays by name, the bytes read and written, and the number of passes."""

    def __init__(self):
        self.arrays = {name: values.astype(np.float32) / np.float32(4096) for name, values in START.items()}
        self.moved = self.passes = 0

    def load(self, *names):
        self.moved += sum(self.arrays[name].nbytes for name in names)
        return [self.arrays[name] for name in names]

    def store(self, **arrays):
        self.moved += sum(array.nbytes for array in arrays.values())
        self.arrays.update(arrays)

    def new_pass(self, *names):
        self.passes += 1
        return self.load(*names)


CHANGES = ("seven passes", "detect infinities while unscaling",
           "square for the norm in the same pass", "clip while updating", "cast while updating",
           "unscale again instead of storing",
           "let the next gradient overwrite")


def step(joined):
    """Unscale, check, norm, clip, AdamW, cast, zero: with the first `joined` changes."""
    memory = Memory()
    grad = memory.new_pass("grad")[0] * SCALE
    if joined < 5:
        memory.store(grad=grad)
    grad = memory.new_pass("grad")[0] if joined < 1 else grad
    finite = np.isfinite(grad).all()
    grad = memory.new_pass("grad")[0] if joined < 2 else grad
    norm = math.sqrt(math.fsum(float(x) * float(x) for x in grad))
    coef = np.float32(min(1, 0.5 / (norm + 1e-6)))
    if joined < 3:
        memory.store(grad=memory.new_pass("grad")[0] * coef)
    grad, p, m, v = memory.new_pass("grad", "master", "exp_avg", "exp_avg_sq")
    grad = grad * SCALE if joined >= 5 else grad
    grad = grad * coef if joined >= 3 else grad
    m = B1 * m + (ONE - B1) * grad
    v = B2 * v + (ONE - B2) * (grad * grad)
    p = (p - DECAY * p) - LR * (m / (np.sqrt(v) + EPS))
    if finite:
        memory.store(master=p, exp_avg=m, exp_avg_sq=v)
    p = memory.new_pass("master")[0] if joined < 4 else p
    memory.store(param=(zp.bits(zp.to_bf16(p)) >> 16).astype(np.uint16))
    if joined < 6:
        memory.new_pass()
        memory.store(grad=np.zeros_like(p))
    return memory


last = zp.given("11.5", 6, 5)
steps = [step(joined) for joined in range(last + 1)]
rung = [one.moved / one.arrays["grad"].size for one in steps]
apart = sum(zp.different(one.arrays[name], steps[0].arrays[name]) for one in steps
            for name in ("master", "exp_avg", "exp_avg_sq", "param"))
zp.table(("a step", "passes", "bytes per element"),
         *[(name, one.passes, f"{count:.0f}") for name, one, count in zip(CHANGES, steps, rung)])
print(f"elements of master, moments and parameters that differ, in all variants: {apart}")
path = sorted(records.glob("epyc-*/product-64Mi.json.gz"))[-1]
record = json.loads(gzip.decompress(path.read_bytes()))
row = next(row for row in record["product"]
           if (row["micro_batches"], row["tensors"], row["grad_dtype"]) == (1, 1, "fp32"))
print(f"recorded in {path.name} on an {record['machine']['cpu']}: a step of production moves "
      f"{row['bytes_per_parameter']:.0f} bytes per parameter,\n"
      f"and took {row['step_to_limit']['median']:.2f} times as long as only moving these bytes")
zp.claim("11.5", apart == 0 and steps[0].passes == 7 and steps[-1].passes == 2
         and rung[-1] == row["bytes_per_parameter"],
         "from seven passes to two: the same bits with fewer bytes, the number that production "
         "moves")

# %% [markdown]
# One phase cannot be merged: clipping needs the norm, and the norm needs every element. Two passes
# are the minimum for a step that clips.

# %%
fig, (top, bottom) = zp.figure(2, 1, height=4.6)
start = {}
for name, stream, *_ in PLAN:  # each takes one unit of time and begins as early as possible
    same = [start[op[0]] + 1 for op in PLAN if op[0] in start and op[1] == stream]
    start[name] = max([*same, *[start[other] + 1 for who, other in WAITS if who == name], 0])
row_of = {"compute": 1, "comm": 0}
where = {name: (start[name], row_of[stream]) for name, stream, *_ in PLAN}
for name, stream, reads, writes in PLAN:
    x, y = where[name]
    top.barh(y, 0.9, left=x, height=0.5, color="#d8d8d8" if stream == "compute" else "#f3e3d6", edgecolor="black")
    top.text(x + 0.45, y, name, ha="center", va="center")
for who, other in WAITS:
    (x, y), (x0, y0) = where[who], where[other]
    shift = 0.25 if y < y0 else -0.25
    top.annotate("", (x + 0.1, y + shift), (x0 + 0.8, y0 - shift), arrowprops={"arrowstyle": "->", "color": "#b34700"})
top.set(yticks=[0, 1], ylim=(-0.5, 1.5), xlabel="time, if every operation took as long", title="a plan and its waits")
top.set_yticklabels(["comm", "compute"])
order = range(len(steps))[::-1]
bottom.barh(order, rung, color="#9a9a9a", edgecolor="black", height=0.7)
for y, count, one in zip(order, rung, steps):
    bottom.text(count + 0.5, y, f"{count:.0f}, {one.passes} passes", va="center")
bottom.set(xlim=(0, 80), xlabel="bytes per element that a step moves")
bottom.set_yticks(order, CHANGES[:len(steps)])
zp.show(fig, "Above: seven operations on two streams, compute and comm, with five arrows for the "
             "waits between them. "
             "Below: bars of bytes per element, from 62 in seven passes down to 34 in two.")

# %% [markdown]
# ## Find it
#
# A step that the host only enqueues, on the simulated device, with one wait missing. Nothing
# rejects it: here no audit runs. Look at the buffer, its values, and the buffers that were equal
# before. Which operation did not wait for which?

# %%
seal = "Z2F0aGVyLW5vdC13YWl0ZWQtZm9y"
case = zp.verify(*short, "--impl", "device-fused", fault=zp.sealed(seal))["cases"][0]
print(zp.place(case))
print("  hint:", case["divergence"]["hint"])
mine = ""
print(zp.answer(mine, seal))

# %% [markdown]
# Names to choose from: `integers-not-waited-for`, `grad-freed-before-reduced`,
# `gather-not-waited-for`, `gather-before-update`, `status-read-early`.
#
# ## Puzzle 12
#
# In a cell of your own, give every unit of `PLAN` its own memory, `A`, `B` and `C`. One of the
# `WAITS` becomes redundant: remove it, and confirm this with `audit` and the outcomes of all
# `timings`. Then give all three `A`: two other waits must replace it. Which, and how many orders
# are left? For any plan it is a function to write: `python3 notebooks/puzzle start repair`
# ([how](puzzles/README.md)).
#
# ## Further reading
#
# - [step_plan.hpp](../cuda/optimizer/overlap/step_plan.hpp) and
#   [plan_audit.hpp](../cuda/optimizer/overlap/plan_audit.hpp): the real plan and its audit. The
#   reference has neither: [plain_stage3.cpp](../reference/zero/plain/plain_stage3.cpp) runs sequentially,
#   so no race is possible in it.
# - [The simulated device](../cuda/device/sim/README.md); [ZeRO:units](../papers/zero.md).
