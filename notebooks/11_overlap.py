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

# %%
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

# %% [markdown]
# **Your code.** When does each operation begin, if each takes one unit of time and begins as early
# as possible: after the operation before it in its stream, and after the operations it waits for?
# A correct function draws the plan; otherwise the lesson continues with its own.

# %%
import textwrap

import zp  # first: reports missing packages
import zp_lesson11 as lesson


@lesson.blank
def earliest(plan, waits):
    """The time at which each operation begins, a dictionary by name; the first times are 0."""
    return ...  # your code, a few lines


# %%
lesson.draw_plan(PLAN, WAITS, earliest(PLAN, WAITS))

# %% [markdown]
# **Guess first.** Five waits. In how many different orders can the seven operations run? How many
# different results are there?

# %%
orders = list(lesson.timings(PLAN, WAITS))
outcomes = {lesson.outcome(order) for order in orders}
print(f"orders: {len(orders)}, outcomes: {len(outcomes)}")
for seen in sorted(outcomes):
    print("inputs of the update:", ", ".join(seen))
zp.claim("11.1", len(orders) > 1 and outcomes == {("gradient 2", "gradient 1", "gradient 0")},
         "with all of its waits the plan can run in several orders, and has one outcome")

# %% [markdown]
# Enumerating all orders is possible for seven operations. For a real plan there is a shorter check
# that enumerates nothing: which operation *must* precede which, by stream, by wait, or by a chain
# of these. Two operations that access the same memory, at least one of them writing, *conflict*.
# They must be ordered in this sense; otherwise they *race*.
#
# **Your code.** Write the condition. An operation is a row of `PLAN`.

# %%
@lesson.blank
def conflict(first, second):
    """Whether two operations access the same memory, and at least one of them writes it."""
    return ...  # your code


# %% [markdown]
# **Guess first.** Remove one wait. For which of the five is the result still correct in every
# timing?

# %%
rows, counts = [], {"none omitted": (len(orders), len(outcomes))}
for wait in WAITS:
    left = lesson.without(WAITS, wait)
    orders = list(lesson.timings(PLAN, left))
    outcomes, race = {lesson.outcome(order) for order in orders}, lesson.audit(PLAN, left, conflict)
    counts[f"{wait[0]}, for {wait[1]}"] = len(orders), len(outcomes)
    rows.append((*wait, lesson.wrong_inputs(outcomes), " and ".join(race or ("none",))))
zp.table(("omitted: wait of", "for", "wrong", "race found by the audit"), *rows)
lesson.draw_orders(counts)
agree = [number > 1 and row[-1] != "none" for row, (_, number) in zip(rows, list(counts.values())[1:])]
zp.claim("11.2", all(agree) and lesson.audit(PLAN, WAITS, conflict) is None, "if any one wait is omitted there "
         "is a second outcome, and the audit names two operations that race")

# %% [markdown]
# None of the five is redundant. In the third and fourth row a sum may hold *another unit's*
# gradient, finite and plausible, and in the fourth only if the network is slow.
#
# Production makes such a plan for every pass (`cuda/optimizer/overlap/step_plan.hpp`), and audits
# it before execution. Here the first wait of a reduction is omitted, as in a public library.

# %%
alone, beside = lesson.run(), lesson.run("--overlap")
refused = lesson.run("--overlap", fault="reduction-does-not-wait")
hashes = [case["training"]["trajectory_hash"] for case in (alone, beside)]
zp.table(("run", "verdict", "trajectory"), ("sequential", alone["status"], hashes[0]),
         ("overlapped", beside["status"], hashes[1]), ("a wait omitted", refused["status"], ""))
print(textwrap.fill(refused["reason"], 100))
zp.claim("11.3", len(set(hashes)) == 1 and beside["status"] == "pass" and refused["status"] == "error"
         and lesson.operations_named(refused["reason"]), "overlap changes no bit, and a plan without one "
         "wait is rejected before it runs, with both operations named")
print(f"\non a GPU, as recorded: {lesson.recorded_on_a_gpu()}")

# %% [markdown]
# GPUs have streams too. For machines without one there is a simulated device: the same kernels,
# compiled for the CPU, and streams that run when the host waits, in one of two orders. `device`
# runs phase by phase, `device-fused` in two passes, `device-graph` enqueues whole steps without
# intermediate results on the host.
#
# **Guess first.** Other kernels, other passes, two streams, a graph. How many different results?

# %%
cases = {"host": lesson.short("host")}
for name, *words in (("device",), ("device-fused",), ("device-graph", "--overlap")):
    cases[" ".join((name, *words))] = lesson.short(name, *words, program="zeroproof-sim")
zp.table(("implementation", "verdict", "compared", "differing"),
         *[(name, case["status"], f"{case['compared']:,}", case["differing"]) for name, case in cases.items()])
hashes = {case["training"]["trajectory_hash"] for case in cases.values()}
print("trajectory:", ", ".join(sorted(hashes)))
zp.claim("11.4", len(hashes) == 1 and {(case["status"], case["differing"]) for case in cases.values()} == {("pass", 0)},
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
steps = [lesson.step(joined) for joined in range(7)]
lesson.draw_passes(steps)
print(f"elements of master, moments and parameters that differ, in all variants: {lesson.differing(steps)}")
file, cpu, recorded, slower = lesson.recorded_step()
print(f"recorded in {file} on an {cpu}:\na step of production moves {recorded:.0f} bytes per parameter,\n"
      f"and took {slower:.2f} times as long as only moving these bytes")
zp.claim("11.5", lesson.differing(steps) == 0 and steps[0].passes == 7 and steps[-1].passes == 2
         and steps[-1].per_element() == recorded,
         "from seven passes to two: the same bits with fewer bytes, the number that production moves")

# %% [markdown]
# One phase cannot be merged: clipping needs the norm, and the norm needs every element. Two passes
# are the minimum for a step that clips.
#
# ## Find it
#
# A step that the host only enqueues, on the simulated device, with one wait missing. Nothing
# rejects it: here no audit runs. Look at the buffer, its values, and the buffers that were equal
# before. Which operation did not wait for which?

# %%
case = lesson.short("device-fused", fault="?11")
print(f"{zp.place(case)}\n  hint: {case['divergence']['hint']}")
mine = ""
zp.guess("?11", mine)

# %% [markdown]
# Names to choose from: `integers-not-waited-for`, `grad-freed-before-reduced`,
# `gather-not-waited-for`, `gather-before-update`, `status-read-early`.
#
# ## Puzzle 12
#
# In a cell of your own, give every unit of `PLAN` its own memory, `A`, `B` and `C`. One of the
# `WAITS` becomes redundant: remove it, and confirm this with `lesson.audit` and the outcomes of all
# `lesson.timings`. Then give all three `A`: two other waits must replace it. Which, and how many
# orders are left? For any plan it is a function to write: `python3 notebooks/puzzle start repair`
# ([how](puzzles/README.md)).
#
# ## Further reading
#
# - [step_plan.hpp](../cuda/optimizer/overlap/step_plan.hpp) and
#   [plan_audit.hpp](../cuda/optimizer/overlap/plan_audit.hpp): the real plan and its audit. The
#   reference has neither: [plain_stage3.cpp](../reference/zero/plain/plain_stage3.cpp) runs sequentially,
#   so no race is possible in it.
# - [The simulated device](../cuda/device/sim/README.md); [ZeRO:units](../papers/zero.md).
